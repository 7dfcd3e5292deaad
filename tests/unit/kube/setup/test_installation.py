"""What doctor says of clocks, certificates, the roles and who leads."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from t9ksched.cli.servicecheck import examine_service, judge_readiness, judge_version
from t9ksched.kube.setup.findings import Finding, Level
from t9ksched.kube.setup.installation import (
    judge_certificates,
    judge_clocks,
    judge_database_clock,
    judge_policies,
    judge_roles,
)

Json = dict[str, Any]
NOW = datetime(2031, 5, 6, tzinfo=UTC)
ROLES = ("t9k-scheduler", "t9ksched-controller", "t9ksched-api")


def told(found: list[Finding]) -> list[tuple[str, str, str]]:
    for one in found:
        assert one.remedy or one.level is Level.OK, one
    return [(one.check, str(one.level), one.subject) for one in found]


def lease(name: str, renewed: datetime, holder: str = "a_1") -> Json:
    spec = {"renewTime": renewed.isoformat(), "holderIdentity": holder, "leaseDurationSeconds": 6}
    return {"metadata": {"name": name}, "spec": spec}


def deployment(name: str, tag: str = "0.1.0", available: int = 2) -> Json:
    template = {"spec": {"containers": [{"image": f"registry:5000/t9ksched:{tag}"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 2, "template": template},
        "status": {"availableReplicas": available},
    }


@pytest.mark.parametrize(("days", "level"), [(-1, "blocks"), (10, "warning"), (90, "ok")])
def test_certificates(days: int, level: str) -> None:
    ends = int((NOW + timedelta(days=days)).timestamp())
    assert told(judge_certificates({"client": ends}, NOW)) == [("certificates", level, "client certificate")]


def test_clocks() -> None:
    late = NOW - timedelta(seconds=30)
    assert told(judge_clocks([lease("n1", late), lease("n2", NOW + timedelta(seconds=1))], NOW)) == [
        ("clocks", "ok", "leases")
    ]
    (ahead,) = judge_clocks([lease("n1", NOW), lease("n2", NOW + timedelta(seconds=9))], NOW)
    assert (ahead.subject, "9 s ahead" in ahead.message) == ("n2", True)
    assert judge_clocks([{"metadata": {"name": "x"}, "spec": {"renewTime": "soon"}}], NOW) == []
    assert judge_database_clock(NOW - timedelta(seconds=5), NOW).level is Level.WARNING
    assert judge_database_clock(NOW, NOW).level is Level.OK


def test_roles() -> None:
    leases = [lease("t9k-scheduler", NOW), lease("t9ksched-controller", NOW)]
    assert judge_roles([], [], "0.1.0", NOW) == []
    alone = judge_roles([], [lease("t9k-scheduler", NOW), lease("t9ksched-controller", NOW, holder="")], "0.1.0", NOW)
    assert told(alone) == [("roles", "ok", "t9k-scheduler")], "t9ksched up leads, without a Deployment"
    sound = told(judge_roles([deployment(name) for name in ROLES], leases, "0.1.0", NOW))
    assert sound == [
        ("roles", "ok", "t9k-scheduler"),
        ("roles", "ok", "t9ksched-controller"),
        ("roles", "ok", "deployments"),
    ]
    mixed = [deployment(ROLES[0], "0.2.0"), deployment(ROLES[1], available=0), deployment(ROLES[2], available=1)]
    past = [lease("t9k-scheduler", NOW - timedelta(seconds=7)), lease("t9ksched-controller", NOW, holder="")]
    assert told(judge_roles(mixed, past, "0.1.0", NOW)) == [
        ("roles", "blocks", "t9ksched-controller"),
        ("roles", "warning", "t9ksched-api"),
        ("versions", "warning", "roles"),
        ("roles", "blocks", "t9k-scheduler"),
        ("roles", "blocks", "t9ksched-controller"),
    ]
    (other, *_) = judge_roles([deployment(name) for name in ROLES], leases, "0.3.0", NOW)
    assert (other.check, other.level) == ("versions", Level.NOTE)


def test_policies() -> None:
    assert judge_policies([])[0].level is Level.NOTE
    assert judge_policies([{"metadata": {"name": "t9ksched-fields"}}])[0].level is Level.OK


def test_a_service() -> None:
    assert told(judge_readiness("http://x", 200, {})) == [("service", "ok", "http://x")]
    (lacks,) = judge_readiness("http://x", 503, {"errors": [{"path": "database", "message": "is away"}]})
    assert (lacks.level, "database: is away" in lacks.message) == (Level.BLOCKS, True)
    assert judge_readiness("http://x", 404, {})[0].level is Level.BLOCKS
    assert told(judge_version("http://x", {"version": "9.9"})) == [("versions", "note", "http://x")]
    (nothing,) = examine_service("http://127.0.0.1:9")
    assert (nothing.level, "does not answer" in nothing.message) == (Level.BLOCKS, True)
