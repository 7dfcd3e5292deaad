BEGIN TRANSACTION;
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
	accepted_at DATETIME NOT NULL, groups JSON DEFAULT '[]' NOT NULL, permitted_by VARCHAR(320), 
	CONSTRAINT pk_acceptance PRIMARY KEY (uid)
);
INSERT INTO "acceptance" VALUES('732161d4-85e2-4815-94cb-ca3c20f54c99','PyTorchTrainingJob','default','train',NULL,NULL,'admin','a100',40,NULL,'{"nvidia.com/gpu":16}','{"cpu":4000,"memory":4294967296}','2026-11-22 15:35:20.032159','[]','administrator');
INSERT INTO "acceptance" VALUES('a935f321-81eb-45b4-a289-ff00762a83a6','PyTorchTrainingJob','default','elastic',NULL,NULL,'admin','a40',0,NULL,'{"nvidia.com/gpu":4}','{"cpu":2000,"memory":2147483648}','2026-11-22 15:35:20.644895','[]','administrator');
INSERT INTO "acceptance" VALUES('e6615c0e-5f4a-4c4a-9611-8b96beeeef24','PodGroup','default','train','e6615c0e-5f4a-4c4a-9611-8b96beeeef24','train',NULL,'a100',40,NULL,'{}','{}','2026-11-22 15:35:20.652151','[]','everyone');
INSERT INTO "acceptance" VALUES('7f848908-dc00-41e4-b863-6a232570532b','MPIJob','default','mpi',NULL,NULL,'admin','a100',0,NULL,'{"nvidia.com/gpu":2}','{"cpu":3000,"memory":3221225472}','2026-11-22 15:35:20.708840','[]','administrator');
INSERT INTO "acceptance" VALUES('b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','Notebook','default','lab',NULL,NULL,'admin','a40',0,NULL,'{"nvidia.com/gpu":1}','{"cpu":1000,"memory":1073741824}','2026-11-22 15:35:20.737861','[]','administrator');
INSERT INTO "acceptance" VALUES('1111a22d-bcb3-4925-8a9f-63bfb8d4859a','PyTorchTrainingJob','default','waiting',NULL,NULL,'admin','a100',50,NULL,'{"nvidia.com/gpu":16}','{"cpu":4000,"memory":4294967296}','2026-11-22 15:35:21.091880','[]','administrator');
INSERT INTO "acceptance" VALUES('b4ad55c3-04a0-4caf-ba66-3bcba8e2fe8b','PyTorchTrainingJob','default','paused',NULL,NULL,'admin','a40',0,NULL,'{"nvidia.com/gpu":2}','{"cpu":2000,"memory":2147483648}','2026-11-22 15:35:21.109145','[]','administrator');
INSERT INTO "acceptance" VALUES('2a1ff284-a393-43a1-a1b7-f95a2ac144bb','PyTorchTrainingJob','default','ended',NULL,NULL,'admin','a40',0,NULL,'{"nvidia.com/gpu":1}','{"cpu":1000,"memory":1073741824}','2026-11-22 15:35:21.133233','[]','administrator');
INSERT INTO "acceptance" VALUES('385ff1dd-cbb7-4445-b789-e5050f69ff8c','PodGroup','default','elastic','385ff1dd-cbb7-4445-b789-e5050f69ff8c','elastic',NULL,'a40',0,NULL,'{}','{}','2026-11-22 15:35:20.726768','[]','namespaceSelector');
INSERT INTO "acceptance" VALUES('462350b1-bd87-4535-a113-a3fdf972624e','PodGroup','default','mpi','462350b1-bd87-4535-a113-a3fdf972624e','mpi',NULL,'a100',0,NULL,'{}','{}','2026-11-22 15:35:20.850325','[]','everyone');
INSERT INTO "acceptance" VALUES('e4b48e5c-cbb7-4bba-8904-5de965f76532','Pod','default','managed-notebook-lab-0',NULL,NULL,NULL,'a40',0,NULL,'{}','{}','2026-11-22 15:35:20.872829','[]','namespaceSelector');
INSERT INTO "acceptance" VALUES('3af7341e-e3c4-47d0-8c25-ba42b1a2d6c2','Pod','default','batch-h265n',NULL,NULL,NULL,'closed',0,NULL,'{}','{}','2026-11-22 15:35:20.872829','[]','namespaceSelector');
INSERT INTO "acceptance" VALUES('8066cdbf-4994-4266-b21b-b97433fdc5ac','Pod','default','batch-vhkp8',NULL,NULL,NULL,'closed',0,NULL,'{}','{}','2026-11-22 15:35:20.872829','[]','namespaceSelector');
INSERT INTO "acceptance" VALUES('9875464f-3ed4-485c-9da4-2c918b647015','Pod','default','web-8717c4e4a2-mwh8r',NULL,NULL,NULL,'a100',0,NULL,'{}','{}','2026-11-22 15:35:20.974492','[]','everyone');
INSERT INTO "acceptance" VALUES('ba96a40a-96f5-4109-8d60-e3c1c3a9e5aa','Pod','default','web-8717c4e4a2-tlfr8',NULL,NULL,NULL,'a100',0,NULL,'{}','{}','2026-11-22 15:35:20.974492','[]','everyone');
INSERT INTO "acceptance" VALUES('8e46ab5c-e02b-43e7-90be-2250892ab2e3','Pod','default','single',NULL,NULL,NULL,'a100',0,NULL,'{}','{}','2026-11-22 15:35:20.974492','[]','everyone');
INSERT INTO "acceptance" VALUES('886e7f18-1d5d-4df4-8046-53e444a9d0bc','PodGroup','default','hand','886e7f18-1d5d-4df4-8046-53e444a9d0bc','hand',NULL,'a100',30,NULL,'{}','{}','2026-11-22 15:35:21.026582','[]','everyone');
INSERT INTO "acceptance" VALUES('39027c39-cf3c-4eb0-a6e8-6d4386a54506','PodGroup','default','waiting','39027c39-cf3c-4eb0-a6e8-6d4386a54506','waiting',NULL,'a100',50,NULL,'{}','{}','2026-11-22 15:35:21.133729','[]','everyone');
INSERT INTO "acceptance" VALUES('4c1998c4-fa87-4125-9fe8-f98c69b0607c','PodGroup','default','ended','4c1998c4-fa87-4125-9fe8-f98c69b0607c','ended','admin','a40',0,NULL,'{}','{}','2026-11-22 15:35:21.163011','[]','administrator');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0005');
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
INSERT INTO "api_token" VALUES('admin','951092981878512558bfd2f6bcfa65cf9276ab9923f35ef005f675ef21b1de35','admin','admin','2026-11-22 15:35:19.003383','2026-11-22 15:35:19.949927','[]','[]',NULL);
CREATE TABLE change_log (
	revision BIGINT NOT NULL, 
	table_name VARCHAR(40) NOT NULL, 
	"key" TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_change_log PRIMARY KEY (revision)
);
INSERT INTO "change_log" VALUES(1,'queue','default','2026-11-22 15:35:18.982453');
INSERT INTO "change_log" VALUES(2,'api_token','admin','2026-11-22 15:35:19.004268');
INSERT INTO "change_log" VALUES(3,'queue','a100','2026-11-22 15:35:19.961867');
INSERT INTO "change_log" VALUES(4,'queue','a40','2026-11-22 15:35:19.973136');
INSERT INTO "change_log" VALUES(5,'queue','closed','2026-11-22 15:35:19.990708');
INSERT INTO "change_log" VALUES(6,'queue','a100','2026-11-22 15:35:20.013262');
INSERT INTO "change_log" VALUES(7,'acceptance','732161d4-85e2-4815-94cb-ca3c20f54c99','2026-11-22 15:35:20.034206');
INSERT INTO "change_log" VALUES(8,'acceptance','a935f321-81eb-45b4-a289-ff00762a83a6','2026-11-22 15:35:20.645237');
INSERT INTO "change_log" VALUES(9,'acceptance','7f848908-dc00-41e4-b863-6a232570532b','2026-11-22 15:35:20.709036');
INSERT INTO "change_log" VALUES(10,'acceptance','b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','2026-11-22 15:35:20.738132');
INSERT INTO "change_log" VALUES(11,'acceptance','1111a22d-bcb3-4925-8a9f-63bfb8d4859a','2026-11-22 15:35:21.092249');
INSERT INTO "change_log" VALUES(12,'acceptance','b4ad55c3-04a0-4caf-ba66-3bcba8e2fe8b','2026-11-22 15:35:21.109466');
INSERT INTO "change_log" VALUES(13,'acceptance','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','2026-11-22 15:35:21.133529');
INSERT INTO "change_log" VALUES(14,'queue','closed','2026-11-22 15:35:21.326697');
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
INSERT INTO "history" VALUES(1,'2026-11-22 15:35:19.965505','queue-created',NULL,NULL,NULL,NULL,'a100','admin','{"after":{"labels":{},"spec":{"quota":{"requests":{"nvidia.com/gpu":"28"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":10},"members":{}}}');
INSERT INTO "history" VALUES(2,'2026-11-22 15:35:19.978920','queue-created',NULL,NULL,NULL,NULL,'a40','admin','{"after":{"labels":{},"spec":{"quota":{"requests":{"nvidia.com/gpu":"16"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A40-40GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":5,"maxDuration":"20y"},"members":{}}}');
INSERT INTO "history" VALUES(3,'2026-11-22 15:35:19.998169','queue-created',NULL,NULL,NULL,NULL,'closed','admin','{"after":{"labels":{},"spec":{"quota":{"requests":{"nvidia.com/gpu":"8"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":1},"members":{}}}');
INSERT INTO "history" VALUES(4,'2026-11-22 15:35:20.017063','queue-members-changed',NULL,NULL,NULL,NULL,'a100','admin','{"before":{"labels":{},"spec":{"quota":{"requests":{"nvidia.com/gpu":"28"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":10},"members":{}},"after":{"labels":{},"spec":{"quota":{"requests":{"nvidia.com/gpu":"28"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":10},"members":{"everyone":true,"users":[],"groups":[],"maxPriority":80}}}');
INSERT INTO "history" VALUES(5,'2026-11-22 15:35:20.032159','submitted','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','admin','{}');
INSERT INTO "history" VALUES(6,'2026-11-22 15:35:20.032159','accepted','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','admin','{"gpus":16}');
INSERT INTO "history" VALUES(7,'2026-11-22 15:35:20.644895','submitted','PyTorchTrainingJob','default','elastic','a935f321-81eb-45b4-a289-ff00762a83a6','a40','admin','{}');
INSERT INTO "history" VALUES(8,'2026-11-22 15:35:20.644895','accepted','PyTorchTrainingJob','default','elastic','a935f321-81eb-45b4-a289-ff00762a83a6','a40','admin','{"gpus":4}');
INSERT INTO "history" VALUES(9,'2026-11-22 15:35:20.652000','accepted','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','scheduler','{"priority":40,"group":"train","submitter":null,"permittedBy":"everyone"}');
INSERT INTO "history" VALUES(10,'2026-11-22 15:35:20.653000','admitted','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','scheduler','{"nodes":{"a100-0":2,"a100-1":2},"waitedSeconds":0}');
INSERT INTO "history" VALUES(11,'2026-11-22 15:35:20.687000','bound','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','scheduler','{"pod":"train-worker-0","node":"a100-0","cards":{"pytorch":[0,1,2,3]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(12,'2026-11-22 15:35:20.687000','bound','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','scheduler','{"pod":"train-worker-1","node":"a100-0","cards":{"pytorch":[4,5,6,7]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(13,'2026-11-22 15:35:20.687000','bound','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','scheduler','{"pod":"train-worker-2","node":"a100-1","cards":{"pytorch":[0,1,2,3]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(14,'2026-11-22 15:35:20.687000','bound','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','scheduler','{"pod":"train-worker-3","node":"a100-1","cards":{"pytorch":[4,5,6,7]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(15,'2026-11-22 15:35:20.708840','submitted','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','admin','{}');
INSERT INTO "history" VALUES(16,'2026-11-22 15:35:20.708840','accepted','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','admin','{"gpus":2}');
INSERT INTO "history" VALUES(17,'2026-11-22 15:35:20.737861','submitted','Notebook','default','lab','b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','a40','admin','{}');
INSERT INTO "history" VALUES(18,'2026-11-22 15:35:20.737861','accepted','Notebook','default','lab','b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','a40','admin','{"gpus":1}');
INSERT INTO "history" VALUES(19,'2026-11-22 15:35:21.091880','submitted','PyTorchTrainingJob','default','waiting','1111a22d-bcb3-4925-8a9f-63bfb8d4859a','a100','admin','{}');
INSERT INTO "history" VALUES(20,'2026-11-22 15:35:21.091880','accepted','PyTorchTrainingJob','default','waiting','1111a22d-bcb3-4925-8a9f-63bfb8d4859a','a100','admin','{"gpus":16}');
INSERT INTO "history" VALUES(21,'2026-11-22 15:35:21.109145','submitted','PyTorchTrainingJob','default','paused','b4ad55c3-04a0-4caf-ba66-3bcba8e2fe8b','a40','admin','{}');
INSERT INTO "history" VALUES(22,'2026-11-22 15:35:21.109145','accepted','PyTorchTrainingJob','default','paused','b4ad55c3-04a0-4caf-ba66-3bcba8e2fe8b','a40','admin','{"gpus":2}');
INSERT INTO "history" VALUES(23,'2026-11-22 15:35:21.133233','submitted','PyTorchTrainingJob','default','ended','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','a40','admin','{}');
INSERT INTO "history" VALUES(24,'2026-11-22 15:35:21.133233','accepted','PyTorchTrainingJob','default','ended','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','a40','admin','{"gpus":1}');
INSERT INTO "history" VALUES(25,'2026-11-22 15:35:20.726000','accepted','PyTorchTrainingJob','default','elastic','a935f321-81eb-45b4-a289-ff00762a83a6','a40','scheduler','{"priority":0,"group":"elastic","submitter":null,"permittedBy":"namespaceSelector"}');
INSERT INTO "history" VALUES(26,'2026-11-22 15:35:20.727000','admitted','PyTorchTrainingJob','default','elastic','a935f321-81eb-45b4-a289-ff00762a83a6','a40','scheduler','{"nodes":{"a40-0":2},"waitedSeconds":0}');
INSERT INTO "history" VALUES(27,'2026-11-22 15:35:20.748000','bound','PyTorchTrainingJob','default','elastic','a935f321-81eb-45b4-a289-ff00762a83a6','a40','scheduler','{"pod":"elastic-worker-0","node":"a40-0","cards":{"pytorch":[0,1]},"model":"NVIDIA-A40-40GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(28,'2026-11-22 15:35:20.748000','bound','PyTorchTrainingJob','default','elastic','a935f321-81eb-45b4-a289-ff00762a83a6','a40','scheduler','{"pod":"elastic-worker-1","node":"a40-0","cards":{"pytorch":[2,3]},"model":"NVIDIA-A40-40GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(29,'2026-11-22 15:35:20.850000','accepted','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','scheduler','{"priority":0,"group":"mpi","submitter":null,"permittedBy":"everyone"}');
INSERT INTO "history" VALUES(30,'2026-11-22 15:35:20.852000','admitted','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','scheduler','{"nodes":{"a100-0":1,"a100-2":2},"waitedSeconds":0}');
INSERT INTO "history" VALUES(31,'2026-11-22 15:35:20.872000','bound','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','scheduler','{"pod":"mpi-worker-0","node":"a100-2","cards":{"worker":[0]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(32,'2026-11-22 15:35:20.872000','bound','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','scheduler','{"pod":"mpi-worker-1","node":"a100-2","cards":{"worker":[1]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(33,'2026-11-22 15:35:20.872000','bound','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','scheduler','{"pod":"mpi-launcher-0","node":"a100-0","cards":{},"model":null}');
INSERT INTO "history" VALUES(34,'2026-11-22 15:35:20.872000','accepted','Notebook','default','lab','b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','a40','scheduler','{"priority":0,"group":null,"submitter":null,"permittedBy":"namespaceSelector"}');
INSERT INTO "history" VALUES(35,'2026-11-22 15:35:20.872000','accepted','Job','default','batch','166f586c-1d75-400b-8c69-0a0c146d3f19','closed','scheduler','{"priority":0,"group":null,"submitter":null,"permittedBy":"namespaceSelector"}');
INSERT INTO "history" VALUES(36,'2026-11-22 15:35:20.872000','accepted','Job','default','batch','166f586c-1d75-400b-8c69-0a0c146d3f19','closed','scheduler','{"priority":0,"group":null,"submitter":null,"permittedBy":"namespaceSelector"}');
INSERT INTO "history" VALUES(37,'2026-11-22 15:35:20.874000','admitted','Notebook','default','lab','b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','a40','scheduler','{"nodes":{"a40-1":1},"waitedSeconds":0}');
INSERT INTO "history" VALUES(38,'2026-11-22 15:35:20.874000','admitted','Job','default','batch','166f586c-1d75-400b-8c69-0a0c146d3f19','closed','scheduler','{"nodes":{"a100-2":1},"waitedSeconds":0}');
INSERT INTO "history" VALUES(39,'2026-11-22 15:35:20.874000','admitted','Job','default','batch','166f586c-1d75-400b-8c69-0a0c146d3f19','closed','scheduler','{"nodes":{"a100-2":1},"waitedSeconds":0}');
INSERT INTO "history" VALUES(40,'2026-11-22 15:35:20.926000','bound','Notebook','default','lab','b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','a40','scheduler','{"pod":"managed-notebook-lab-0","node":"a40-1","cards":{"notebook":[0]},"model":"NVIDIA-A40-40GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(41,'2026-11-22 15:35:20.926000','bound','Job','default','batch','166f586c-1d75-400b-8c69-0a0c146d3f19','closed','scheduler','{"pod":"batch-h265n","node":"a100-2","cards":{"main":[2]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(42,'2026-11-22 15:35:20.926000','bound','Job','default','batch','166f586c-1d75-400b-8c69-0a0c146d3f19','closed','scheduler','{"pod":"batch-vhkp8","node":"a100-2","cards":{"main":[3]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(43,'2026-11-22 15:35:20.958000','started','PyTorchTrainingJob','default','train','732161d4-85e2-4815-94cb-ca3c20f54c99','a100','scheduler','{"phase":"Running"}');
INSERT INTO "history" VALUES(44,'2026-11-22 15:35:20.958000','started','PyTorchTrainingJob','default','elastic','a935f321-81eb-45b4-a289-ff00762a83a6','a40','scheduler','{"phase":"Running"}');
INSERT INTO "history" VALUES(45,'2026-11-22 15:35:20.974000','accepted','ReplicaSet','default','web-8717c4e4a2','f92fad3b-91f9-4392-a50a-d6abe741e4bd','a100','scheduler','{"priority":0,"group":null,"submitter":null,"permittedBy":"everyone"}');
INSERT INTO "history" VALUES(46,'2026-11-22 15:35:20.974000','accepted','ReplicaSet','default','web-8717c4e4a2','f92fad3b-91f9-4392-a50a-d6abe741e4bd','a100','scheduler','{"priority":0,"group":null,"submitter":null,"permittedBy":"everyone"}');
INSERT INTO "history" VALUES(47,'2026-11-22 15:35:20.974000','accepted','Pod','default','single','8e46ab5c-e02b-43e7-90be-2250892ab2e3','a100','scheduler','{"priority":0,"group":null,"submitter":null,"permittedBy":"everyone"}');
INSERT INTO "history" VALUES(48,'2026-11-22 15:35:20.975000','admitted','Pod','default','single','8e46ab5c-e02b-43e7-90be-2250892ab2e3','a100','scheduler','{"nodes":{"a100-2":1},"waitedSeconds":0}');
INSERT INTO "history" VALUES(49,'2026-11-22 15:35:20.975000','admitted','ReplicaSet','default','web-8717c4e4a2','f92fad3b-91f9-4392-a50a-d6abe741e4bd','a100','scheduler','{"nodes":{"a100-0":1},"waitedSeconds":0}');
INSERT INTO "history" VALUES(50,'2026-11-22 15:35:20.975000','admitted','ReplicaSet','default','web-8717c4e4a2','f92fad3b-91f9-4392-a50a-d6abe741e4bd','a100','scheduler','{"nodes":{"a100-0":1},"waitedSeconds":0}');
INSERT INTO "history" VALUES(51,'2026-11-22 15:35:20.984000','bound','Pod','default','single','8e46ab5c-e02b-43e7-90be-2250892ab2e3','a100','scheduler','{"pod":"single","node":"a100-2","cards":{"main":[4]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(52,'2026-11-22 15:35:20.984000','bound','ReplicaSet','default','web-8717c4e4a2','f92fad3b-91f9-4392-a50a-d6abe741e4bd','a100','scheduler','{"pod":"web-8717c4e4a2-mwh8r","node":"a100-0","cards":{},"model":null}');
INSERT INTO "history" VALUES(53,'2026-11-22 15:35:20.984000','bound','ReplicaSet','default','web-8717c4e4a2','f92fad3b-91f9-4392-a50a-d6abe741e4bd','a100','scheduler','{"pod":"web-8717c4e4a2-tlfr8","node":"a100-0","cards":{},"model":null}');
INSERT INTO "history" VALUES(54,'2026-11-22 15:35:21.026000','accepted','PodGroup','default','hand','886e7f18-1d5d-4df4-8046-53e444a9d0bc','a100','scheduler','{"priority":30,"group":"hand","submitter":null,"permittedBy":"everyone"}');
INSERT INTO "history" VALUES(55,'2026-11-22 15:35:21.043000','admitted','PodGroup','default','hand','886e7f18-1d5d-4df4-8046-53e444a9d0bc','a100','scheduler','{"nodes":{"a100-2":3},"waitedSeconds":1}');
INSERT INTO "history" VALUES(56,'2026-11-22 15:35:21.051000','bound','PodGroup','default','hand','886e7f18-1d5d-4df4-8046-53e444a9d0bc','a100','scheduler','{"pod":"hand-0","node":"a100-2","cards":{"main":[5]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(57,'2026-11-22 15:35:21.051000','bound','PodGroup','default','hand','886e7f18-1d5d-4df4-8046-53e444a9d0bc','a100','scheduler','{"pod":"hand-1","node":"a100-2","cards":{"main":[6]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(58,'2026-11-22 15:35:21.051000','bound','PodGroup','default','hand','886e7f18-1d5d-4df4-8046-53e444a9d0bc','a100','scheduler','{"pod":"hand-2","node":"a100-2","cards":{"main":[7]},"model":"NVIDIA-A100-PCIE-80GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(59,'2026-11-22 15:35:21.133000','accepted','PyTorchTrainingJob','default','waiting','1111a22d-bcb3-4925-8a9f-63bfb8d4859a','a100','scheduler','{"priority":50,"group":"waiting","submitter":null,"permittedBy":"everyone"}');
INSERT INTO "history" VALUES(60,'2026-11-22 15:35:21.134000','waiting','PyTorchTrainingJob','default','waiting','1111a22d-bcb3-4925-8a9f-63bfb8d4859a','a100','scheduler','{"codes":["InsufficientResources","QuotaExceeded"],"message":"needs 16 × nvidia.com/gpu, queue ''a100'' has 6 of 28 left; needs room for 4 pods with 4 × nvidia.com/gpu each; 4 nodes match, now with room for 2"}');
INSERT INTO "history" VALUES(61,'2026-11-22 15:35:21.163000','accepted','PyTorchTrainingJob','default','ended','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','a40','scheduler','{"priority":0,"group":"ended","submitter":"admin","permittedBy":"administrator"}');
INSERT INTO "history" VALUES(62,'2026-11-22 15:35:21.164000','admitted','PyTorchTrainingJob','default','ended','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','a40','scheduler','{"nodes":{"a40-1":1},"waitedSeconds":0}');
INSERT INTO "history" VALUES(63,'2026-11-22 15:35:21.168000','bound','PyTorchTrainingJob','default','ended','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','a40','scheduler','{"pod":"ended-worker-0","node":"a40-1","cards":{"pytorch":[1]},"model":"NVIDIA-A40-40GB","resource":"nvidia.com/gpu"}');
INSERT INTO "history" VALUES(64,'2026-11-22 15:35:21.328536','queue-changed',NULL,NULL,NULL,NULL,'closed','admin','{"before":{"labels":{},"spec":{"quota":{"requests":{"nvidia.com/gpu":"8"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":1},"members":{}},"after":{"labels":{},"spec":{"quota":{"requests":{"nvidia.com/gpu":"8"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":1,"closed":true},"members":{}}}');
INSERT INTO "history" VALUES(65,'2026-11-22 15:35:21.358012','deleted','PyTorchTrainingJob','default','ended','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','a40','admin','{}');
INSERT INTO "history" VALUES(66,'2026-11-22 15:35:21.959000','released','PyTorchTrainingJob','default','ended','2a1ff284-a393-43a1-a1b7-f95a2ac144bb','a40','scheduler','{"pod":"ended-worker-0"}');
INSERT INTO "history" VALUES(67,'2026-11-22 15:35:21.959000','started','MPIJob','default','mpi','7f848908-dc00-41e4-b863-6a232570532b','a100','scheduler','{"phase":"Running"}');
INSERT INTO "history" VALUES(68,'2026-11-22 15:35:21.959000','started','Notebook','default','lab','b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','a40','scheduler','{"phase":"Running"}');
INSERT INTO "history" VALUES(69,'2026-11-22 15:35:21.959000','started','Job','default','batch','166f586c-1d75-400b-8c69-0a0c146d3f19','closed','scheduler','{"phase":"Running"}');
INSERT INTO "history" VALUES(70,'2026-11-22 15:35:21.959000','started','ReplicaSet','default','web-8717c4e4a2','f92fad3b-91f9-4392-a50a-d6abe741e4bd','a100','scheduler','{"phase":"Running"}');
INSERT INTO "history" VALUES(71,'2026-11-22 15:35:21.959000','started','Pod','default','single','8e46ab5c-e02b-43e7-90be-2250892ab2e3','a100','scheduler','{"phase":"Running"}');
INSERT INTO "history" VALUES(72,'2026-11-22 15:35:21.959000','started','PodGroup','default','hand','886e7f18-1d5d-4df4-8046-53e444a9d0bc','a100','scheduler','{"phase":"Running"}');
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
	shape JSON NOT NULL, 
	CONSTRAINT pk_job PRIMARY KEY (uid)
);
INSERT INTO "job" VALUES('732161d4-85e2-4815-94cb-ca3c20f54c99','PyTorchTrainingJob','default','train','a100','Running','2026-11-22 15:35:20.032159','2026-11-22 15:35:20.958000',NULL,NULL,'{"apiVersion":"batch.tensorstack.dev/v1beta1","namespace":"default","kind":"PyTorchTrainingJob","name":"train","uid":"732161d4-85e2-4815-94cb-ca3c20f54c99","group":"train","queue":"a100","priority":40,"submitter":"admin","phase":"Running","members":{"min":4,"total":4,"bound":4,"running":4,"succeeded":0,"failed":0},"gpus":16,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:20Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('a935f321-81eb-45b4-a289-ff00762a83a6','PyTorchTrainingJob','default','elastic','a40','Running','2026-11-22 15:35:20.644895','2026-11-22 15:35:20.958000',NULL,NULL,'{"apiVersion":"batch.tensorstack.dev/v1beta1","namespace":"default","kind":"PyTorchTrainingJob","name":"elastic","uid":"a935f321-81eb-45b4-a289-ff00762a83a6","group":"elastic","queue":"a40","priority":0,"submitter":"admin","phase":"Running","members":{"min":1,"total":2,"bound":2,"running":2,"succeeded":0,"failed":0},"gpus":4,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:20Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('7f848908-dc00-41e4-b863-6a232570532b','MPIJob','default','mpi','a100','Running','2026-11-22 15:35:20.708840','2026-11-22 15:35:21.959000',NULL,NULL,'{"apiVersion":"batch.tensorstack.dev/v1beta1","namespace":"default","kind":"MPIJob","name":"mpi","uid":"7f848908-dc00-41e4-b863-6a232570532b","group":"mpi","queue":"a100","priority":0,"submitter":"admin","phase":"Running","members":{"min":3,"total":3,"bound":3,"running":3,"succeeded":0,"failed":0},"gpus":2,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:20Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','Notebook','default','lab','a40','Running','2026-11-22 15:35:20.737861','2026-11-22 15:35:21.959000',NULL,NULL,'{"apiVersion":"tensorstack.dev/v1beta1","namespace":"default","kind":"Notebook","name":"lab","uid":"b09bfc8a-ae8d-4a40-a06a-4489ef72bee3","group":null,"queue":"a40","priority":0,"submitter":"admin","phase":"Running","members":{"min":1,"total":1,"bound":1,"running":1,"succeeded":0,"failed":0},"gpus":1,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:20Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('1111a22d-bcb3-4925-8a9f-63bfb8d4859a','PyTorchTrainingJob','default','waiting','a100','Pending','2026-11-22 15:35:21.091880','2026-11-22 15:35:23.961000',NULL,NULL,'{"apiVersion":"batch.tensorstack.dev/v1beta1","namespace":"default","kind":"PyTorchTrainingJob","name":"waiting","uid":"1111a22d-bcb3-4925-8a9f-63bfb8d4859a","group":"waiting","queue":"a100","priority":50,"submitter":"admin","phase":"Pending","members":{"min":4,"total":4,"bound":0,"running":0,"succeeded":0,"failed":0},"gpus":16,"submittedAt":"2026-11-22T15:35:21Z","startedAt":null,"finishedAt":null,"position":1,"reason":{"code":"QuotaExceeded","message":"needs 16 × nvidia.com/gpu, queue ''a100'' has 6 of 28 left"},"expectedStart":null}');
INSERT INTO "job" VALUES('b4ad55c3-04a0-4caf-ba66-3bcba8e2fe8b','PyTorchTrainingJob','default','paused','a40','Paused','2026-11-22 15:35:21.109145','2026-11-22 15:35:21.959000',NULL,NULL,'{"apiVersion":"batch.tensorstack.dev/v1beta1","namespace":"default","kind":"PyTorchTrainingJob","name":"paused","uid":"b4ad55c3-04a0-4caf-ba66-3bcba8e2fe8b","group":null,"queue":"a40","priority":0,"submitter":"admin","phase":"Paused","members":{"min":0,"total":0,"bound":0,"running":0,"succeeded":0,"failed":0},"gpus":0,"submittedAt":"2026-11-22T15:35:21Z","startedAt":null,"finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('2a1ff284-a393-43a1-a1b7-f95a2ac144bb','PyTorchTrainingJob','default','ended','a40','Pending','2026-11-22 15:35:21.133233','2026-11-22 15:35:21.959000',NULL,'2026-11-22 15:35:21.959000','{"apiVersion":"batch.tensorstack.dev/v1beta1","namespace":"default","kind":"PyTorchTrainingJob","name":"ended","uid":"2a1ff284-a393-43a1-a1b7-f95a2ac144bb","group":null,"queue":"a40","priority":0,"submitter":"admin","phase":"Pending","members":{"min":1,"total":1,"bound":0,"running":0,"succeeded":0,"failed":0},"gpus":1,"submittedAt":"2026-11-22T15:35:21Z","startedAt":null,"finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('166f586c-1d75-400b-8c69-0a0c146d3f19','Job','default','batch','closed','Running','2026-11-22 15:35:20.000000','2026-11-22 15:35:21.959000',NULL,NULL,'{"apiVersion":"batch/v1","namespace":"default","kind":"Job","name":"batch","uid":"166f586c-1d75-400b-8c69-0a0c146d3f19","group":null,"queue":"closed","priority":0,"submitter":null,"phase":"Running","members":{"min":2,"total":2,"bound":2,"running":2,"succeeded":0,"failed":0},"gpus":2,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:20Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('f92fad3b-91f9-4392-a50a-d6abe741e4bd','ReplicaSet','default','web-8717c4e4a2','a100','Running','2026-11-22 15:35:20.000000','2026-11-22 15:35:21.959000',NULL,NULL,'{"apiVersion":"apps/v1","namespace":"default","kind":"ReplicaSet","name":"web-8717c4e4a2","uid":"f92fad3b-91f9-4392-a50a-d6abe741e4bd","group":null,"queue":"a100","priority":0,"submitter":null,"phase":"Running","members":{"min":2,"total":2,"bound":2,"running":2,"succeeded":0,"failed":0},"gpus":0,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:20Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('8e46ab5c-e02b-43e7-90be-2250892ab2e3','Pod','default','single','a100','Running','2026-11-22 15:35:20.000000','2026-11-22 15:35:21.959000',NULL,NULL,'{"apiVersion":"v1","namespace":"default","kind":"Pod","name":"single","uid":"8e46ab5c-e02b-43e7-90be-2250892ab2e3","group":null,"queue":"a100","priority":0,"submitter":null,"phase":"Running","members":{"min":1,"total":1,"bound":1,"running":1,"succeeded":0,"failed":0},"gpus":1,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:20Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
INSERT INTO "job" VALUES('886e7f18-1d5d-4df4-8046-53e444a9d0bc','PodGroup','default','hand','a100','Running','2026-11-22 15:35:20.000000','2026-11-22 15:35:21.959000',NULL,NULL,'{"apiVersion":"scheduler.tensorstack.dev/v1beta1","namespace":"default","kind":"PodGroup","name":"hand","uid":"886e7f18-1d5d-4df4-8046-53e444a9d0bc","group":"hand","queue":"a100","priority":30,"submitter":null,"phase":"Running","members":{"min":2,"total":3,"bound":3,"running":3,"succeeded":0,"failed":0},"gpus":3,"submittedAt":"2026-11-22T15:35:20Z","startedAt":"2026-11-22T15:35:21Z","finishedAt":null,"position":null,"reason":null,"expectedStart":null}');
CREATE TABLE job_control (
	uid VARCHAR(36) NOT NULL, 
	held BOOLEAN NOT NULL, 
	priority INTEGER, 
	"by" VARCHAR(253) NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_job_control PRIMARY KEY (uid)
);
CREATE TABLE meta (
	"key" VARCHAR(63) NOT NULL, 
	value JSON NOT NULL, 
	CONSTRAINT pk_meta PRIMARY KEY ("key")
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
INSERT INTO "queue" VALUES('default','fa8cde74-9282-4df3-aa87-86b255e2a11f','{}','{}',1,'2026-11-22 15:35:18.990454','2026-11-22 15:35:18.990454','{"everyone":true}',0);
INSERT INTO "queue" VALUES('a100','cf878e43-fd88-49fc-b3bb-2e2e30873296','{}','{"quota":{"requests":{"nvidia.com/gpu":"28"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":10}',6,'2026-11-22 15:35:19.964274','2026-11-22 15:35:20.017025','{"everyone":true,"users":[],"groups":[],"maxPriority":80}',0);
INSERT INTO "queue" VALUES('a40','521e87c3-16c2-4b7a-b88e-35cc1e2108cc','{}','{"quota":{"requests":{"nvidia.com/gpu":"16"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A40-40GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":5,"maxDuration":"20y"}',4,'2026-11-22 15:35:19.977382','2026-11-22 15:35:19.977382','{}',0);
INSERT INTO "queue" VALUES('closed','cfbd7747-94c1-4a13-9744-df79edb1f140','{}','{"quota":{"requests":{"nvidia.com/gpu":"8"}},"nodeSelector":{"matchLabels":{"nvidia.com/gpu.product":"NVIDIA-A100-PCIE-80GB"}},"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"default"}},"priority":1,"closed":true}',14,'2026-11-22 15:35:19.994691','2026-11-22 15:35:21.328499','{}',0);
CREATE TABLE revision_counter (
	id INTEGER NOT NULL, 
	value BIGINT NOT NULL, 
	CONSTRAINT pk_revision_counter PRIMARY KEY (id)
);
INSERT INTO "revision_counter" VALUES(1,14);
CREATE TABLE scheduler_instance (
	id INTEGER NOT NULL, 
	address VARCHAR(253) NOT NULL, 
	identity VARCHAR(253) NOT NULL, 
	epoch BIGINT NOT NULL, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	CONSTRAINT pk_scheduler_instance PRIMARY KEY (id)
);
INSERT INTO "scheduler_instance" VALUES(1,'http://127.0.0.1:35155','vm',1,'2026-11-22 15:35:19.851125','2026-11-22 15:35:24.942719');
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
INSERT INTO "usage_job" VALUES('732161d4-85e2-4815-94cb-ca3c20f54c99','admin',1,'[]');
INSERT INTO "usage_job" VALUES('a935f321-81eb-45b4-a289-ff00762a83a6','admin',1,'[]');
INSERT INTO "usage_job" VALUES('7f848908-dc00-41e4-b863-6a232570532b','admin',1,'[]');
INSERT INTO "usage_job" VALUES('b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','admin',1,'[]');
INSERT INTO "usage_job" VALUES('2a1ff284-a393-43a1-a1b7-f95a2ac144bb','admin',0,'["2026-11"]');
INSERT INTO "usage_job" VALUES('166f586c-1d75-400b-8c69-0a0c146d3f19','unknown',1,'[]');
INSERT INTO "usage_job" VALUES('8e46ab5c-e02b-43e7-90be-2250892ab2e3','unknown',1,'[]');
INSERT INTO "usage_job" VALUES('886e7f18-1d5d-4df4-8046-53e444a9d0bc','unknown',1,'[]');
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
	ran_at DATETIME, 
	CONSTRAINT pk_usage_open PRIMARY KEY (uid, pod)
);
INSERT INTO "usage_open" VALUES('732161d4-85e2-4815-94cb-ca3c20f54c99','train-worker-0','default','PyTorchTrainingJob/train','a100','admin','a100-0','[0,1,2,3]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.687000','2026-11-22 15:35:20.958000');
INSERT INTO "usage_open" VALUES('732161d4-85e2-4815-94cb-ca3c20f54c99','train-worker-1','default','PyTorchTrainingJob/train','a100','admin','a100-0','[4,5,6,7]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.687000','2026-11-22 15:35:20.958000');
INSERT INTO "usage_open" VALUES('732161d4-85e2-4815-94cb-ca3c20f54c99','train-worker-2','default','PyTorchTrainingJob/train','a100','admin','a100-1','[0,1,2,3]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.687000','2026-11-22 15:35:20.958000');
INSERT INTO "usage_open" VALUES('732161d4-85e2-4815-94cb-ca3c20f54c99','train-worker-3','default','PyTorchTrainingJob/train','a100','admin','a100-1','[4,5,6,7]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.687000','2026-11-22 15:35:20.958000');
INSERT INTO "usage_open" VALUES('a935f321-81eb-45b4-a289-ff00762a83a6','elastic-worker-0','default','PyTorchTrainingJob/elastic','a40','admin','a40-0','[0,1]','nvidia.com/gpu','NVIDIA-A40-40GB','2026-11-22 15:35:20.748000','2026-11-22 15:35:20.958000');
INSERT INTO "usage_open" VALUES('a935f321-81eb-45b4-a289-ff00762a83a6','elastic-worker-1','default','PyTorchTrainingJob/elastic','a40','admin','a40-0','[2,3]','nvidia.com/gpu','NVIDIA-A40-40GB','2026-11-22 15:35:20.748000','2026-11-22 15:35:20.958000');
INSERT INTO "usage_open" VALUES('7f848908-dc00-41e4-b863-6a232570532b','mpi-worker-0','default','MPIJob/mpi','a100','admin','a100-2','[0]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.872000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('7f848908-dc00-41e4-b863-6a232570532b','mpi-worker-1','default','MPIJob/mpi','a100','admin','a100-2','[1]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.872000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('b09bfc8a-ae8d-4a40-a06a-4489ef72bee3','managed-notebook-lab-0','default','Notebook/lab','a40','admin','a40-1','[0]','nvidia.com/gpu','NVIDIA-A40-40GB','2026-11-22 15:35:20.926000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('166f586c-1d75-400b-8c69-0a0c146d3f19','batch-h265n','default','Job/batch','closed','unknown','a100-2','[2]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.926000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('166f586c-1d75-400b-8c69-0a0c146d3f19','batch-vhkp8','default','Job/batch','closed','unknown','a100-2','[3]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.926000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('8e46ab5c-e02b-43e7-90be-2250892ab2e3','single','default','Pod/single','a100','unknown','a100-2','[4]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:20.984000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('886e7f18-1d5d-4df4-8046-53e444a9d0bc','hand-0','default','PodGroup/hand','a100','unknown','a100-2','[5]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:21.051000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('886e7f18-1d5d-4df4-8046-53e444a9d0bc','hand-1','default','PodGroup/hand','a100','unknown','a100-2','[6]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:21.051000','2026-11-22 15:35:21.959000');
INSERT INTO "usage_open" VALUES('886e7f18-1d5d-4df4-8046-53e444a9d0bc','hand-2','default','PodGroup/hand','a100','unknown','a100-2','[7]','nvidia.com/gpu','NVIDIA-A100-PCIE-80GB','2026-11-22 15:35:21.051000','2026-11-22 15:35:21.959000');
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
	ended_at DATETIME NOT NULL, 
	CONSTRAINT pk_usage_span PRIMARY KEY (id)
);
INSERT INTO "usage_span" VALUES(1,'2a1ff284-a393-43a1-a1b7-f95a2ac144bb','ended-worker-0','default','PyTorchTrainingJob/ended','a40','admin','a40-1','[1]','nvidia.com/gpu','NVIDIA-A40-40GB','2026-11-22 15:35:21.168000',NULL,'2026-11-22 15:35:21.959000');
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
INSERT INTO "usage_sum" VALUES('2026-11-22','a40','admin','default','NVIDIA-A40-40GB','nvidia.com/gpu',791000,791000,1);
CREATE INDEX ix_acceptance_accepted_at ON acceptance (accepted_at);
CREATE INDEX ix_acceptance_namespace_name ON acceptance (namespace, name);
CREATE INDEX ix_history_at ON history (at);
CREATE INDEX ix_history_uid ON history (uid);
CREATE INDEX ix_history_queue_id ON history (queue, id);
CREATE INDEX ix_history_namespace_name_id ON history (namespace, name, id);
CREATE INDEX ix_job_namespace_kind_name ON job (namespace, kind, name);
CREATE INDEX ix_job_queue_phase ON job (queue, phase);
CREATE INDEX ix_job_submitted_at_uid ON job (submitted_at, uid);
CREATE INDEX ix_change_log_at ON change_log (at);
CREATE INDEX ix_history_event_id ON history (event, id);
CREATE TRIGGER history_append_only BEFORE UPDATE ON history
BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE INDEX ix_usage_span_ended_at ON usage_span (ended_at);
CREATE INDEX ix_job_live ON job (submitted_at, uid) WHERE deleted_at IS NULL;
COMMIT;