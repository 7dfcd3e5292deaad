"""Settings: variables are read in one place, and a bad one is named without its value."""

import pytest

from t9ksched.settings import Settings, SettingsError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("T9KSCHED_")]:
        monkeypatch.delenv(name)


def test_defaults() -> None:
    settings = Settings.load()
    assert (settings.db, settings.host, settings.port, settings.retention_days) == (None, "127.0.0.1", 8080, 90)


def test_variables_and_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T9KSCHED_DB", "postgresql://h/d")
    monkeypatch.setenv("T9KSCHED_CARD_RESOURCES", "example.com/card, example.com/chip,")
    monkeypatch.setenv("T9KSCHED_PORT", "9000")
    monkeypatch.setenv("T9KSCHED_NOTIFY_NETWORKS", "10.1.0.0/16, fd00::/64,127.0.0.1")
    monkeypatch.setenv("T9KSCHED_NOTIFY_SERVICES", "")
    settings = Settings.load(port=0)
    assert [str(one) for one in settings.notify_networks] == ["10.1.0.0/16", "fd00::/64", "127.0.0.1/32"]
    assert settings.notify_services == ()
    assert (settings.db, settings.port) == ("postgresql://h/d", 0)
    assert settings.card_resources == ("example.com/card", "example.com/chip")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "high"),
        ("PORT", "70000"),
        ("RETENTION_DAYS", "0"),
        ("LOG_FORMAT", "xml"),
        ("INTERNAL_SECRET", "hunter2"),
        ("NOTIFY_NETWORKS", "10.0.0.0/8,hunter2"),
        ("NOTIFY_NETWORKS", "10.0.0.1/8"),
    ],
)
def test_bad_variables_are_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"T9KSCHED_{name}", value)
    with pytest.raises(SettingsError, match=f"T9KSCHED_{name}") as refused:
        Settings.load()
    assert "hunter2" not in str(refused.value)


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T9KSCHED_ADMIN_TOKEN", "correct horse battery")
    monkeypatch.setenv("T9KSCHED_NOTIFY_MAIL", "mailtos://ann:horse@example.org")
    assert "horse" not in repr(Settings.load())
