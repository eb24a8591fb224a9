BEGIN TRANSACTION;
CREATE TABLE assent_agents (
	name TEXT NOT NULL, 
	began TEXT NOT NULL, 
	seen_at INTEGER NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE assent_blobs (
	run INTEGER NOT NULL, 
	hash BLOB NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT assent_blobs_pkey PRIMARY KEY (run, hash)
)
 WITHOUT ROWID

;
CREATE TABLE assent_chapters (
	run INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	hash BLOB NOT NULL, 
	snapshot TEXT NOT NULL, 
	seal TEXT NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT assent_chapters_pkey PRIMARY KEY (run, seq)
);
CREATE TABLE assent_contexts (
	run INTEGER NOT NULL, 
	body BLOB, 
	kind TEXT, 
	PRIMARY KEY (run)
);
CREATE TABLE assent_definitions (
	fingerprint TEXT NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (fingerprint)
)
 WITHOUT ROWID

;
INSERT INTO "assent_definitions" VALUES('7a896f6a5cd2eadd4f635c1f265253ca',X'7B226167656E74223A6E756C6C2C2264656661756C7473223A7B7D2C226465736372697074696F6E223A2250617920616E20616D6F756E742E222C226B696E64223A22746F6F6C222C226E616D65223A22706179222C2272756C65223A747275652C22736368656D61223A7B226164646974696F6E616C50726F70657274696573223A66616C73652C2270726F70657274696573223A7B22616D6F756E74223A7B2274797065223A22696E7465676572227D7D2C227265717569726564223A5B22616D6F756E74225D2C2274797065223A226F626A656374227D2C22736572766572223A6E756C6C2C227368617065223A7B226164646974696F6E616C50726F70657274696573223A66616C73652C2270726F70657274696573223A7B22616D6F756E74223A7B2274797065223A22696E7465676572227D7D2C227265717569726564223A5B22616D6F756E74225D2C2274797065223A226F626A656374227D2C2276657273696F6E223A6E756C6C7D');
CREATE TABLE assent_file (id BLOB NOT NULL, version INTEGER NOT NULL);
INSERT INTO "assent_file" VALUES(X'459FA7E6507F67EE924B82B51A2FBAEA',1);
CREATE TABLE assent_grants (
	run INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	verdict TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	at INTEGER NOT NULL, 
	message TEXT, 
	server TEXT, 
	definition TEXT, 
	max_uses INTEGER, 
	used INTEGER NOT NULL, 
	until INTEGER, 
	pins TEXT, 
	revoked INTEGER, 
	revoked_by TEXT, 
	CONSTRAINT assent_grants_pkey PRIMARY KEY (run, id)
)
 WITHOUT ROWID

;
CREATE TABLE assent_items (seq INTEGER PRIMARY KEY, session TEXT NOT NULL, run TEXT, position INTEGER, item TEXT NOT NULL);
CREATE TABLE assent_journal (
	run INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	at INTEGER NOT NULL, 
	fact TEXT NOT NULL, 
	prev_hash BLOB NOT NULL, 
	CONSTRAINT assent_journal_pkey PRIMARY KEY (run, seq)
);
INSERT INTO "assent_journal" VALUES(1,1,1794971969243,'{"fact":"began","agent":"Shop","max_turns":10,"run":"run_42f811cbaf015b8bc11100b2c4146887","version":"0.1.0","session":"talk","stored":true,"at":1794971969153}',X'0000000000000000000000000000000000000000000000000000000000000000');
INSERT INTO "assent_journal" VALUES(1,2,1794971969243,'{"fact":"said","items":"go"}',X'997CE6DB08A384E5E2242C275FADFC5E3F0ADD3B63F435B6198FB98C6A57DAB0');
INSERT INTO "assent_journal" VALUES(1,3,1794971969243,'{"fact":"defined","agent":"Shop","digest":"31fc2d79266ff0a3ff733a0b1d522fa4","tools":{"pay":"7a896f6a"},"model":"scripted","redact":{}}',X'042297773AEB6B7D52B89B79A719A5DB6E86D54B6AE71EBC93458D331342A2AA');
INSERT INTO "assent_journal" VALUES(1,4,1794971969243,'{"fact":"replied","items":[{"type":"function_call","id":"fc_1_0","call_id":"call_1_0","name":"pay","arguments":"{\"amount\": 5}","status":"completed"}],"saw":1,"calls":[["c1","pay",0,"tool","7a896f6a5cd2eadd4f635c1f265253ca"]],"usage":[1,10,5],"id":"resp_1","at":90}',X'5DD05CA3E6F94889982CFF2512DF445480C20423A1A517A0E52B443E94EAF7DC');
INSERT INTO "assent_journal" VALUES(1,5,1794971969243,'{"fact":"asked","call":"c1","id":"q_4d5e46bca3b629cfa0d429149f177953","why":"","digest":"81a4e0fa5837ab740fd8c68c29b5e846190ba1befd65f2980b20fad8762f824f","at":90}',X'0667A6FC63DA5FE0D74CFD4BCDB813AC147DCA930A7228B05B03C9B3B70538E2');
INSERT INTO "assent_journal" VALUES(2,1,1794971969523,'{"fact":"began","agent":"Shop","max_turns":10,"run":"run_fb829be7ba1bda5826e820e3a2e4e284","version":"0.1.0","stored":true,"at":1794971969523}',X'0000000000000000000000000000000000000000000000000000000000000000');
INSERT INTO "assent_journal" VALUES(2,2,1794971969523,'{"fact":"said","items":"go on"}',X'CB7F3B8F9ADA74A5A3823C8BA1B257159A95E46A0D7C2B27D509A189064C4389');
INSERT INTO "assent_journal" VALUES(2,3,1794971969523,'{"fact":"defined","agent":"Shop","digest":"31fc2d79266ff0a3ff733a0b1d522fa4","tools":{"pay":"7a896f6a"},"model":"scripted","redact":{}}',X'6A640141AD2D240860E89A2580518D82B0897EA11F5A8E437CA779713CA705CC');
INSERT INTO "assent_journal" VALUES(2,4,1794971969523,'{"fact":"replied","items":[{"type":"function_call","id":"fc_1_0","call_id":"call_1_0","name":"pay","arguments":"{\"amount\": 7}","status":"completed"}],"saw":1,"calls":[["c1","pay",0,"tool","7a896f6a5cd2eadd4f635c1f265253ca"]],"usage":[1,10,5],"id":"resp_1"}',X'3126113264444C5310B47F40529635C01F9358E0CB9A412DC14B29F628CD1385');
INSERT INTO "assent_journal" VALUES(2,5,1794971969523,'{"fact":"asked","call":"c1","id":"q_d502b5ee44d785c2999bf3aa57d136fd","why":"","digest":"caae6391473ebc4385a18e414530b56165215db79e018948619f4facafb41abb"}',X'30CE6195752B0D20EDCDACB69F87CB00CBDF78D5C9894126591C430242D91069');
INSERT INTO "assent_journal" VALUES(2,6,1794971969533,'{"fact":"approved","call":"c1","by":"ann","asked":"q_d502b5ee44d785c2999bf3aa57d136fd","at":10}',X'FA689196E8629AD239D02BAEA04C1FC495A2A649508B3536E7C649BFB7C80976');
INSERT INTO "assent_journal" VALUES(2,7,1794971969543,'{"fact":"started","call":"c1","fence":2,"at":20}',X'7CBDBE508C2B231B6878B9D1F4F48A00A5EC0F4EEEBEC4D7ABAF782D06CA8578');
INSERT INTO "assent_journal" VALUES(2,8,1794971969549,'{"fact":"finished","call":"c1","output":"paid 7","at":26}',X'C8EF8F96718CFF45D38F95E796CDDD169D31291ED03733ECABDEF50B0B96ACDD');
INSERT INTO "assent_journal" VALUES(2,9,1794971969549,'{"fact":"replied","items":[{"type":"function_call","id":"fc_3_0","call_id":"call_3_0","name":"pay","arguments":"{\"amount\": 7}","status":"completed"}],"saw":1,"calls":[["c2","pay",0,"tool","7a896f6a5cd2eadd4f635c1f265253ca"]],"usage":[1,10,5],"id":"resp_3","at":26}',X'858B9DF09830341726EC6BD7ADDFA367969E7FDD577A7001FFB0268C2F3E88A3');
INSERT INTO "assent_journal" VALUES(2,10,1794971969549,'{"fact":"asked","call":"c2","id":"q_2bd13b2df1b51baa560f8c41d3e82c85","why":"","digest":"1005664565aa6be09b2eff45aa20311db0f9a2df0ee7dc646438d9e12ddd5e08","at":26}',X'A17FD8DF71CF19924F82D17211A99BEBAC9A0B38D1E4E48181F036A2AE8F1D68');
CREATE TABLE assent_outbox (
	id TEXT NOT NULL, 
	webhook TEXT NOT NULL, 
	event TEXT NOT NULL, 
	body TEXT NOT NULL, 
	at INTEGER NOT NULL, 
	tries INTEGER NOT NULL, 
	due INTEGER NOT NULL, 
	error TEXT, 
	PRIMARY KEY (id)
);
CREATE TABLE assent_questions (
	id TEXT NOT NULL, 
	run INTEGER NOT NULL, 
	agent TEXT NOT NULL, 
	tool TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	arguments TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	allowed TEXT NOT NULL, 
	call TEXT NOT NULL, 
	call_id TEXT, 
	path TEXT NOT NULL, 
	definition TEXT, 
	prompt TEXT, 
	schema TEXT, 
	at INTEGER NOT NULL, 
	until INTEGER, 
	due INTEGER, 
	replaces TEXT, 
	verdict TEXT, 
	"by" TEXT, 
	decided INTEGER, 
	evidence TEXT, asked_seal TEXT, ended_seal TEXT, reviewers TEXT, redact TEXT, started_by TEXT, shown TEXT, preview TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "assent_questions" VALUES('q_4d5e46bca3b629cfa0d429149f177953',1,'Shop','pay','approval','81a4e0fa5837ab740fd8c68c29b5e846190ba1befd65f2980b20fad8762f824f','{"amount":5}','Every call of pay needs approval.','["approve","edit","reject","respond"]','c1','call_1_0','[]','7a896f6a5cd2eadd4f635c1f265253ca',NULL,NULL,1794971969243,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'965d9f908854b18579e7bd850e2f27b9',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "assent_questions" VALUES('q_d502b5ee44d785c2999bf3aa57d136fd',2,'Shop','pay','approval','caae6391473ebc4385a18e414530b56165215db79e018948619f4facafb41abb','{"amount":7}','Every call of pay needs approval.','["approve","edit","reject","respond"]','c1','call_1_0','[]','7a896f6a5cd2eadd4f635c1f265253ca',NULL,NULL,1794971969523,NULL,NULL,NULL,'approve','ann',1794971969533,NULL,'eb84fa526380a10403194d5cb1d85ced','96ee99393418eef73a10dbaa100e0b1c',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "assent_questions" VALUES('q_2bd13b2df1b51baa560f8c41d3e82c85',2,'Shop','pay','approval','1005664565aa6be09b2eff45aa20311db0f9a2df0ee7dc646438d9e12ddd5e08','{"amount":7}','Every call of pay needs approval.','["approve","edit","reject","respond"]','c2','call_3_0','[]','7a896f6a5cd2eadd4f635c1f265253ca',NULL,NULL,1794971969549,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'87fc3b47fd489cd5fcfc3881bdbd5112',NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE assent_runs (
	id INTEGER NOT NULL, 
	run TEXT NOT NULL, 
	agent TEXT NOT NULL, 
	status TEXT NOT NULL, 
	thread TEXT, 
	seq INTEGER NOT NULL, 
	began INTEGER NOT NULL, 
	changed_at INTEGER NOT NULL, 
	wake INTEGER, 
	waiting INTEGER NOT NULL, 
	worker TEXT, 
	until INTEGER, 
	lease_fence INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	error TEXT, 
	erased INTEGER, 
	head BLOB NOT NULL, started_by TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT assent_runs_run UNIQUE (run)
);
INSERT INTO "assent_runs" VALUES(1,'run_42f811cbaf015b8bc11100b2c4146887','Shop','waiting',NULL,5,1794971969153,1794971969243,NULL,1,NULL,NULL,1,0,NULL,NULL,X'0B4CDB50EE78454AE5C0052B46642B28FB20DBE9BCC9B04EA093FD36F3718408E7C57A2F0B25745E2A59C1ECE8FCF7CB1D24647B1E7A55431C3A6AC02B94086F0000000000000000000000000000000000000000000000000000000000000000',NULL);
INSERT INTO "assent_runs" VALUES(2,'run_fb829be7ba1bda5826e820e3a2e4e284','Shop','waiting',NULL,10,1794971969523,1794971969549,NULL,1,NULL,NULL,2,0,NULL,NULL,X'7AEACBF1D15C1F8A74A39252F4928589243278550BB3AAB38E293DE3A89D4756E6500EFD5C3270241A7FD5A0801C73E39FB933DFD7A24E9959E7A22E12EC5ECE0000000000000000000000000000000000000000000000000000000000000000',NULL);
CREATE TABLE assent_signins (
	hash TEXT NOT NULL, 
	user TEXT NOT NULL, 
	stamp TEXT NOT NULL, 
	csrf TEXT NOT NULL, 
	made INTEGER NOT NULL, 
	seen INTEGER NOT NULL, 
	until INTEGER NOT NULL, 
	PRIMARY KEY (hash)
);
CREATE TABLE assent_tokens (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	groups TEXT, 
	hash TEXT NOT NULL, 
	made INTEGER NOT NULL, 
	until INTEGER, 
	used INTEGER, 
	revoked_at INTEGER, seal TEXT, 
	PRIMARY KEY (id)
);
INSERT INTO "assent_tokens" VALUES('07bbfd43ac95d63f','ann','viewer',NULL,'22799e8e777e782f506dd8ab872693bebbbb8d79ef0f8635dffcdfa5defc14f4',1794971969976,NULL,NULL,NULL,'bfb5816515b7c6ba19bde7fa7cd7adb4');
CREATE TABLE assent_users (
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	groups TEXT, 
	password TEXT, 
	stamp TEXT NOT NULL, 
	made INTEGER NOT NULL, 
	disabled_at INTEGER, seal TEXT, 
	PRIMARY KEY (name)
);
INSERT INTO "assent_users" VALUES('ann','admin',NULL,'$argon2id$v=19$m=65536,t=3,p=4$a49UYza9t4vArYteOv9g0g$NcK5hcMk0l+/WOdJOXyW+s5xPPJcZ2qSeFULgb9PKG8','602106ab82b4e598f6e918fa722700f8',1794971969975,NULL,'53c7f4298b00243d4922465a4ec66522');
CREATE TABLE assent_webhooks (
	id TEXT NOT NULL, 
	url TEXT NOT NULL, 
	secret TEXT NOT NULL, 
	events TEXT NOT NULL, 
	made INTEGER NOT NULL, 
	disabled_at INTEGER, 
	reason TEXT, 
	PRIMARY KEY (id)
);
CREATE INDEX assent_items_of_session ON assent_items (session);
CREATE UNIQUE INDEX assent_items_of_run ON assent_items (session, run, position) WHERE run IS NOT NULL;
CREATE INDEX assent_runs_began ON assent_runs (began, run);
CREATE INDEX assent_runs_status ON assent_runs (status, began, run);
CREATE INDEX assent_runs_thread ON assent_runs (thread, began, run) WHERE thread IS NOT NULL;
CREATE INDEX assent_runs_wake ON assent_runs (wake, run) WHERE wake IS NOT NULL AND worker IS NULL;
CREATE INDEX assent_runs_worker ON assent_runs (worker) WHERE worker IS NOT NULL;
CREATE INDEX assent_questions_run ON assent_questions (run, at, id);
CREATE INDEX assent_questions_open ON assent_questions (at, id) WHERE verdict IS NULL;
CREATE INDEX assent_questions_agent ON assent_questions (agent, at, id) WHERE verdict IS NULL;
CREATE INDEX assent_questions_tool ON assent_questions (tool, at, id) WHERE verdict IS NULL;
CREATE INDEX assent_questions_settled ON assent_questions (at, id) WHERE verdict IS NOT NULL;
CREATE INDEX assent_outbox_due ON assent_outbox (due, id);
CREATE INDEX assent_questions_decided ON assent_questions (decided, id) WHERE verdict IS NOT NULL;
CREATE INDEX assent_runs_rested ON assent_runs (changed_at, run) WHERE status <> 'working';
COMMIT;
