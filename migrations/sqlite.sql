-- Revision 0038 of all tables, as the migrations make them; written by `make reference`.
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE queue (
	name VARCHAR(63) NOT NULL, 
	uid VARCHAR(36) NOT NULL, 
	labels JSON NOT NULL, 
	spec JSON NOT NULL, 
	revision BIGINT NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, members JSON DEFAULT '{}' NOT NULL, draining BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_queue PRIMARY KEY (name), 
	CONSTRAINT uq_queue_uid UNIQUE (uid)
);
CREATE TABLE api_token (
	name VARCHAR(63) NOT NULL, 
	sha256 VARCHAR(64) NOT NULL, 
	owner VARCHAR(253) NOT NULL, 
	role VARCHAR(20) NOT NULL, 
	created_at DATETIME NOT NULL, 
	last_used_at DATETIME, groups JSON DEFAULT '[]' NOT NULL, queues JSON DEFAULT '[]' NOT NULL, expires_at DATETIME, 
	CONSTRAINT pk_api_token PRIMARY KEY (name), 
	CONSTRAINT uq_api_token_sha256 UNIQUE (sha256)
);
CREATE TABLE acceptance (
	uid VARCHAR(36) NOT NULL, 
	kind VARCHAR(63) NOT NULL, 
	namespace VARCHAR(63) NOT NULL, 
	name VARCHAR(253) NOT NULL, 
	group_uid VARCHAR(36), 
	group_name VARCHAR(253), 
	submitter VARCHAR(253), 
	queue VARCHAR(63), 
	priority INTEGER NOT NULL, 
	time_limit_seconds BIGINT, 
	cards JSON NOT NULL, 
	requests JSON NOT NULL, 
	accepted_at DATETIME NOT NULL, groups JSON DEFAULT '[]' NOT NULL, permitted_by VARCHAR(320), replicas INTEGER, started_at DATETIME, began_with INTEGER, began_roles JSON, 
	CONSTRAINT pk_acceptance PRIMARY KEY (uid)
);
CREATE TABLE history (
	id INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	event VARCHAR(40) NOT NULL, 
	kind VARCHAR(63), 
	namespace VARCHAR(63), 
	name VARCHAR(253), 
	uid VARCHAR(36), 
	queue VARCHAR(63), 
	actor VARCHAR(253), 
	detail JSON NOT NULL, 
	CONSTRAINT pk_history PRIMARY KEY (id)
);
CREATE TABLE job (
	uid VARCHAR(36) NOT NULL, 
	kind VARCHAR(63) NOT NULL, 
	namespace VARCHAR(63) NOT NULL, 
	name VARCHAR(253) NOT NULL, 
	queue VARCHAR(63), 
	phase VARCHAR(20) NOT NULL, 
	submitted_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	finished_at DATETIME, 
	deleted_at DATETIME, 
	shape JSON NOT NULL, submitter VARCHAR(253), 
	CONSTRAINT pk_job PRIMARY KEY (uid)
);
CREATE TABLE change_log (
	revision BIGINT NOT NULL, 
	table_name VARCHAR(40) NOT NULL, 
	"key" TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_change_log PRIMARY KEY (revision)
);
CREATE TABLE revision_counter (
	id INTEGER NOT NULL, 
	value BIGINT NOT NULL, 
	CONSTRAINT pk_revision_counter PRIMARY KEY (id)
);
CREATE TABLE scheduler_instance (
	id INTEGER NOT NULL, 
	address VARCHAR(253) NOT NULL, 
	identity VARCHAR(253) NOT NULL, 
	epoch BIGINT NOT NULL, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	CONSTRAINT pk_scheduler_instance PRIMARY KEY (id)
);
CREATE TABLE meta (
	"key" VARCHAR(63) NOT NULL, 
	value JSON NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY ("key")
);
CREATE TABLE job_control (
	uid VARCHAR(36) NOT NULL, 
	held BOOLEAN NOT NULL, 
	priority INTEGER, 
	"by" VARCHAR(253) NOT NULL, 
	at DATETIME NOT NULL, time_limit_seconds BIGINT, released_at DATETIME, limited_at DATETIME, 
	CONSTRAINT pk_job_control PRIMARY KEY (uid)
);
CREATE TABLE stop (
	what VARCHAR(20) NOT NULL, 
	until DATETIME, 
	"by" VARCHAR(253) NOT NULL, 
	at DATETIME NOT NULL, 
	why TEXT NOT NULL, 
	CONSTRAINT pk_stop PRIMARY KEY (what)
);
CREATE TABLE usage_job (
	uid VARCHAR(36) NOT NULL, 
	submitter VARCHAR(253) NOT NULL, 
	running BOOLEAN NOT NULL, 
	months JSON NOT NULL, 
	CONSTRAINT pk_usage_job PRIMARY KEY (uid)
);
CREATE TABLE usage_open (
	uid VARCHAR(36) NOT NULL, 
	pod VARCHAR(253) NOT NULL, 
	namespace VARCHAR(63) NOT NULL, 
	job VARCHAR(320) NOT NULL, 
	queue VARCHAR(63) NOT NULL, 
	submitter VARCHAR(253) NOT NULL, 
	node VARCHAR(253) NOT NULL, 
	cards JSON NOT NULL, 
	resource VARCHAR(253) NOT NULL, 
	model VARCHAR(253) NOT NULL, 
	bound_at DATETIME NOT NULL, 
	ran_at DATETIME, worth BIGINT, models JSON, 
	CONSTRAINT pk_usage_open PRIMARY KEY (uid, pod)
);
CREATE TABLE usage_span (
	id INTEGER NOT NULL, 
	uid VARCHAR(36) NOT NULL, 
	pod VARCHAR(253) NOT NULL, 
	namespace VARCHAR(63) NOT NULL, 
	job VARCHAR(320) NOT NULL, 
	queue VARCHAR(63) NOT NULL, 
	submitter VARCHAR(253) NOT NULL, 
	node VARCHAR(253) NOT NULL, 
	cards JSON NOT NULL, 
	resource VARCHAR(253) NOT NULL, 
	model VARCHAR(253) NOT NULL, 
	bound_at DATETIME NOT NULL, 
	ran_at DATETIME, 
	ended_at DATETIME NOT NULL, worth BIGINT, models JSON, 
	CONSTRAINT pk_usage_span PRIMARY KEY (id)
);
CREATE TABLE usage_sum (
	day VARCHAR(10) NOT NULL, 
	queue VARCHAR(63) NOT NULL, 
	submitter VARCHAR(253) NOT NULL, 
	namespace VARCHAR(63) NOT NULL, 
	model VARCHAR(253) NOT NULL, 
	resource VARCHAR(253) NOT NULL, 
	amount BIGINT NOT NULL, 
	held BIGINT NOT NULL, 
	jobs BIGINT NOT NULL, 
	CONSTRAINT pk_usage_sum PRIMARY KEY (day, queue, submitter, namespace, model, resource)
);
CREATE TABLE promise (
	owner VARCHAR(36) NOT NULL, 
	number INTEGER NOT NULL, 
	node VARCHAR(253) NOT NULL, 
	pods INTEGER NOT NULL, 
	takes JSON NOT NULL, 
	rank INTEGER NOT NULL, 
	since DATETIME NOT NULL, 
	until DATETIME NOT NULL, 
	CONSTRAINT pk_promise PRIMARY KEY (owner, number)
);
CREATE TABLE binding (
	pod_uid VARCHAR(36) NOT NULL, 
	namespace VARCHAR(63) NOT NULL, 
	name VARCHAR(253) NOT NULL, 
	node VARCHAR(253) NOT NULL, 
	cards JSON NOT NULL, 
	share INTEGER NOT NULL, 
	honoured BOOLEAN NOT NULL, 
	at DATETIME NOT NULL, group_name VARCHAR(253), role VARCHAR(63), queue VARCHAR(63), job_uid VARCHAR(36), parts JSON, devices JSON, units JSON, worth BIGINT, 
	CONSTRAINT pk_binding PRIMARY KEY (pod_uid)
);
CREATE TABLE job_run (
	uid VARCHAR(36) NOT NULL, 
	bound_at BIGINT NOT NULL, 
	ran_at BIGINT NOT NULL, 
	near BOOLEAN NOT NULL, 
	missed INTEGER NOT NULL, 
	missed_at BIGINT NOT NULL, 
	retry_at BIGINT NOT NULL, 
	why TEXT NOT NULL, 
	ended_at BIGINT NOT NULL, 
	ended_code VARCHAR(40) NOT NULL, 
	ended_limit BIGINT, 
	message TEXT NOT NULL, 
	"limit" BIGINT, 
	limit_at BIGINT NOT NULL, reserved_until BIGINT DEFAULT '0' NOT NULL, ended_asked BIGINT, 
	CONSTRAINT pk_job_run PRIMARY KEY (uid)
);
CREATE TABLE idempotency_key (
	owner VARCHAR(253) NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	request VARCHAR(64) NOT NULL, 
	mark VARCHAR(32) NOT NULL, 
	claim VARCHAR(32) NOT NULL, 
	until DATETIME NOT NULL, 
	at DATETIME NOT NULL, 
	status INTEGER, 
	answer TEXT, 
	CONSTRAINT pk_idempotency_key PRIMARY KEY (owner, "key")
);
CREATE TABLE outbox (
	id VARCHAR(32) NOT NULL, 
	owner VARCHAR(253) NOT NULL, 
	"key" VARCHAR(64), 
	groups JSON NOT NULL, 
	at DATETIME NOT NULL, 
	latest DATETIME NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	claim VARCHAR(32) NOT NULL, 
	replica VARCHAR(253) NOT NULL, 
	until DATETIME NOT NULL, 
	objects JSON NOT NULL, 
	uids JSON NOT NULL, 
	CONSTRAINT pk_outbox PRIMARY KEY (id)
);
CREATE TABLE planned_start (
	owner VARCHAR(36) NOT NULL, 
	queue VARCHAR(63) NOT NULL, 
	rank INTEGER NOT NULL, 
	begins BIGINT NOT NULL, 
	ends BIGINT NOT NULL, 
	places JSON NOT NULL, 
	CONSTRAINT pk_planned_start PRIMARY KEY (owner)
);
CREATE TABLE reservation (
	name VARCHAR(63) NOT NULL, 
	uid VARCHAR(36) NOT NULL, 
	spec JSON NOT NULL, 
	nodes JSON NOT NULL, 
	ended JSON, 
	revision BIGINT NOT NULL, 
	created_by VARCHAR(253), 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, outcome JSON, blocked DATETIME, used_until DATETIME, 
	CONSTRAINT pk_reservation PRIMARY KEY (name), 
	CONSTRAINT uq_reservation_uid UNIQUE (uid)
);
CREATE TABLE forecast (
	uid VARCHAR(36) NOT NULL, 
	queue VARCHAR(63) NOT NULL, 
	first_at BIGINT NOT NULL, 
	first_earliest BIGINT NOT NULL, 
	first_latest BIGINT NOT NULL, 
	first_basis VARCHAR(10) NOT NULL, 
	last_at BIGINT NOT NULL, 
	last_earliest BIGINT NOT NULL, 
	last_latest BIGINT NOT NULL, 
	last_basis VARCHAR(10) NOT NULL, 
	started_at BIGINT NOT NULL, 
	settled_at BIGINT NOT NULL, 
	CONSTRAINT pk_forecast PRIMARY KEY (uid)
);
CREATE TABLE card_cordon (
	node VARCHAR(253) NOT NULL, 
	card INTEGER NOT NULL, 
	why TEXT NOT NULL, 
	"by" VARCHAR(253) NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_card_cordon PRIMARY KEY (node, card)
);
CREATE TABLE job_dependency (
	uid VARCHAR(36) NOT NULL, 
	target VARCHAR(320) NOT NULL, 
	target_uid VARCHAR(36) NOT NULL, 
	met_at BIGINT NOT NULL, 
	CONSTRAINT pk_job_dependency PRIMARY KEY (uid, target)
);
CREATE TABLE notification_target (
	id VARCHAR(32) NOT NULL, 
	owner VARCHAR(253) NOT NULL, 
	queue VARCHAR(63), 
	within JSON NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	url TEXT NOT NULL, 
	shown VARCHAR(320) NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	events JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	failures INTEGER NOT NULL, 
	retry_at DATETIME NOT NULL, 
	disabled_at DATETIME, 
	last_at DATETIME, 
	last_error TEXT NOT NULL, 
	CONSTRAINT pk_notification_target PRIMARY KEY (id)
);
CREATE TABLE notification (
	id INTEGER NOT NULL, 
	target VARCHAR(32) NOT NULL, 
	body JSON NOT NULL, 
	at DATETIME NOT NULL, 
	attempts INTEGER NOT NULL, 
	due_at DATETIME NOT NULL, 
	CONSTRAINT pk_notification PRIMARY KEY (id)
);
CREATE TABLE usage_idle (
	id INTEGER NOT NULL, 
	uid VARCHAR(36) NOT NULL, 
	pod VARCHAR(253) NOT NULL, 
	namespace VARCHAR(63) NOT NULL, 
	job VARCHAR(320) NOT NULL, 
	queue VARCHAR(63) NOT NULL, 
	submitter VARCHAR(253) NOT NULL, 
	node VARCHAR(253) NOT NULL, 
	cards JSON NOT NULL, 
	worth BIGINT, 
	resource VARCHAR(253) NOT NULL, 
	model VARCHAR(253) NOT NULL, 
	models JSON, 
	bound_at DATETIME NOT NULL, 
	ran_at DATETIME, 
	idle_since DATETIME NOT NULL, 
	ended_at DATETIME NOT NULL, 
	free_until DATETIME, 
	CONSTRAINT pk_usage_idle PRIMARY KEY (id)
);
INSERT INTO "alembic_version" VALUES('0038');
INSERT INTO "revision_counter" VALUES(1,0);
CREATE INDEX ix_history_namespace_name_id ON history (namespace, name, id);
CREATE INDEX ix_job_namespace_kind_name ON job (namespace, kind, name);
CREATE INDEX ix_job_queue_phase ON job (queue, phase);
CREATE INDEX ix_job_submitted_at_uid ON job (submitted_at, uid);
CREATE INDEX ix_change_log_at ON change_log (at);
CREATE TRIGGER history_append_only BEFORE UPDATE ON history
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE INDEX ix_usage_span_ended_at ON usage_span (ended_at);
CREATE INDEX ix_job_live ON job (submitted_at, uid) WHERE deleted_at IS NULL;
CREATE INDEX ix_idempotency_key_at ON idempotency_key (at);
CREATE INDEX ix_outbox_until ON outbox (until);
CREATE INDEX ix_outbox_owner_key ON outbox (owner, "key");
CREATE INDEX ix_forecast_settled_at ON forecast (settled_at);
CREATE INDEX ix_history_seldom_event_id ON history (event, id) WHERE event NOT IN ('accepted', 'admitted', 'bound', 'deleted', 'finished', 'refused', 'released', 'started', 'submitted', 'waiting');
CREATE INDEX ix_history_seldom_queue_id ON history (queue, id) WHERE event NOT IN ('accepted', 'admitted', 'bound', 'deleted', 'finished', 'refused', 'released', 'started', 'submitted', 'waiting');
CREATE INDEX ix_job_waiting_submitter ON job (submitter) WHERE phase IN ('Pending', 'Waiting') AND deleted_at IS NULL;
CREATE INDEX ix_job_gone_submitter ON job (submitter, submitted_at, uid) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_notification_target_owner ON notification_target (owner);
CREATE INDEX ix_notification_target_queue ON notification_target (queue);
CREATE INDEX ix_notification_target_due_at ON notification (target, due_at);
CREATE INDEX ix_history_users_uid ON history (uid) WHERE actor <> 'scheduler';
CREATE INDEX ix_usage_idle_uid ON usage_idle (uid);
CREATE INDEX ix_usage_idle_free_until ON usage_idle (free_until);
CREATE INDEX ix_job_finished_at ON job (finished_at) WHERE finished_at IS NOT NULL;
