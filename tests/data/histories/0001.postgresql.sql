CREATE TABLE ft_attempts (
    id BIGSERIAL NOT NULL,
    subtask_id TEXT NOT NULL,
    approach TEXT NOT NULL,
    success BOOLEAN NOT NULL,
    error TEXT,
    failure_type VARCHAR(32),
    reason VARCHAR(32),
    run_id VARCHAR(32),
    commit_id VARCHAR(64),
    at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX ft_attempts_by_subtask ON ft_attempts (subtask_id, at);
CREATE TABLE ft_projects (
    id SERIAL NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (name)
);
CREATE TABLE ft_causes (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    reason VARCHAR(32) NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    owner VARCHAR(16),
    PRIMARY KEY (id),
    FOREIGN KEY(project_id) REFERENCES ft_projects (id),
    CONSTRAINT ft_causes_by_fingerprint UNIQUE (project_id, fingerprint)
);
CREATE TABLE ft_runs (
    number SERIAL NOT NULL,
    id VARCHAR(32) NOT NULL,
    project_id INTEGER NOT NULL,
    source VARCHAR(16) NOT NULL,
    started_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    duration_seconds FLOAT,
    stage VARCHAR(16) NOT NULL,
    completeness VARCHAR(16) NOT NULL,
    shard_index INTEGER,
    shard_total INTEGER,
    exit_code INTEGER,
    exit_signal VARCHAR(16),
    reason VARCHAR(32),
    kind TEXT,
    message TEXT,
    nodeid TEXT,
    retryable BOOLEAN,
    owner VARCHAR(16),
    commit_id VARCHAR(64),
    branch TEXT,
    dirty BOOLEAN,
    merge_base VARCHAR(64),
    ci_provider VARCHAR(32),
    ci_run_id TEXT,
    ci_job TEXT,
    collected INTEGER NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    flaky INTEGER NOT NULL,
    not_run INTEGER NOT NULL,
    added_at TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    PRIMARY KEY (number),
    FOREIGN KEY(project_id) REFERENCES ft_projects (id),
    UNIQUE (id)
);
CREATE INDEX ft_runs_by_time ON ft_runs (project_id, started_at);
CREATE TABLE ft_tests (
    id SERIAL NOT NULL,
    project_id INTEGER NOT NULL,
    digest VARCHAR(32) NOT NULL,
    nodeid TEXT NOT NULL,
    first_seen TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    last_seen TIMESTAMP WITHOUT TIME ZONE NOT NULL,
    last_failed TIMESTAMP WITHOUT TIME ZONE,
    last_passed_run INTEGER,
    PRIMARY KEY (id),
    FOREIGN KEY(project_id) REFERENCES ft_projects (id),
    CONSTRAINT ft_tests_by_digest UNIQUE (project_id, digest)
);
ALTER TABLE ft_tests SET (fillfactor = 45);
CREATE TABLE ft_bench_runs (
    id SERIAL NOT NULL,
    run_number INTEGER NOT NULL,
    bench_run_id TEXT NOT NULL,
    task_class TEXT NOT NULL,
    complete BOOLEAN NOT NULL,
    scheduled INTEGER NOT NULL,
    graded INTEGER NOT NULL,
    passed INTEGER NOT NULL,
    mean_score FLOAT,
    lower_bound_95 FLOAT,
    total_cost_usd FLOAT,
    gate VARCHAR(16),
    PRIMARY KEY (id),
    FOREIGN KEY(run_number) REFERENCES ft_runs (number) ON DELETE CASCADE,
    CONSTRAINT ft_bench_runs_by_id UNIQUE (run_number, bench_run_id)
);
CREATE TABLE ft_failures (
    id BIGSERIAL NOT NULL,
    run_number INTEGER NOT NULL,
    test_id INTEGER NOT NULL,
    cause_id INTEGER NOT NULL,
    phase VARCHAR(8) NOT NULL,
    seconds FLOAT,
    message TEXT,
    PRIMARY KEY (id),
    FOREIGN KEY(cause_id) REFERENCES ft_causes (id),
    FOREIGN KEY(run_number) REFERENCES ft_runs (number) ON DELETE CASCADE,
    FOREIGN KEY(test_id) REFERENCES ft_tests (id)
);
CREATE INDEX ft_failures_by_cause ON ft_failures (cause_id, run_number);
CREATE INDEX ft_failures_by_run ON ft_failures (run_number);
CREATE INDEX ft_failures_by_test ON ft_failures (test_id, run_number);
CREATE TABLE ft_outcomes (
    run_number INTEGER NOT NULL,
    test_id INTEGER NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    seconds FLOAT,
    PRIMARY KEY (run_number, test_id),
    FOREIGN KEY(run_number) REFERENCES ft_runs (number) ON DELETE CASCADE,
    FOREIGN KEY(test_id) REFERENCES ft_tests (id)
);
CREATE INDEX ft_outcomes_by_test ON ft_outcomes (test_id, run_number);
CREATE TABLE ft_run_causes (
    run_number INTEGER NOT NULL,
    cause_id INTEGER NOT NULL,
    count INTEGER NOT NULL,
    seconds FLOAT NOT NULL,
    PRIMARY KEY (run_number, cause_id),
    FOREIGN KEY(cause_id) REFERENCES ft_causes (id),
    FOREIGN KEY(run_number) REFERENCES ft_runs (number) ON DELETE CASCADE
);
CREATE INDEX ft_run_causes_by_cause ON ft_run_causes (cause_id, run_number);
CREATE TABLE ft_schema (version_num VARCHAR(32) NOT NULL, CONSTRAINT ft_schema_pkc PRIMARY KEY (version_num));
INSERT INTO ft_schema VALUES ('0001');
