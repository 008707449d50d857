"""The tables as version 1 made them, in each kind of database."""

from __future__ import annotations

from collections.abc import Mapping

TABLES: Mapping[str, str] = {
    "sqlite": """
CREATE TABLE agentkit_runs (id INTEGER NOT NULL, run_id TEXT NOT NULL, parent TEXT, root
    TEXT NOT NULL, session TEXT NOT NULL, user TEXT NOT NULL, tenant TEXT NOT NULL, agent TEXT
    NOT NULL, task TEXT NOT NULL, status TEXT NOT NULL, turn INTEGER NOT NULL, began_at FLOAT
    NOT NULL, saved_at FLOAT NOT NULL, total_s FLOAT NOT NULL, n_requests INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL, output_tokens INTEGER NOT
    NULL, usd TEXT NOT NULL, n_cost_unknown INTEGER NOT NULL, n_unpriced INTEGER NOT NULL,
    n_steps INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (id), UNIQUE (run_id));
CREATE UNIQUE INDEX agentkit_runs_going_on ON agentkit_runs (session, agent) WHERE parent IS
    NULL AND status IN ('running', 'paused');
CREATE INDEX ix_agentkit_runs_root ON agentkit_runs (root);
CREATE INDEX ix_agentkit_runs_session ON agentkit_runs (session);
CREATE INDEX ix_agentkit_runs_user ON agentkit_runs (user);
CREATE TABLE agentkit_segments (digest TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY
    (digest));
CREATE TABLE agentkit_version (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE agentkit_chain (digest TEXT NOT NULL, parent TEXT, segment TEXT NOT NULL, depth
    INTEGER NOT NULL, PRIMARY KEY (digest), FOREIGN KEY(segment) REFERENCES agentkit_segments
    (digest));
CREATE INDEX ix_agentkit_chain_parent ON agentkit_chain (parent);
CREATE INDEX ix_agentkit_chain_segment ON agentkit_chain (segment);
CREATE TABLE agentkit_kept (run INTEGER NOT NULL, handle TEXT NOT NULL, segment TEXT NOT
    NULL, PRIMARY KEY (run, handle), FOREIGN KEY(run) REFERENCES agentkit_runs (id), FOREIGN
    KEY(segment) REFERENCES agentkit_segments (digest)) WITHOUT ROWID;
CREATE INDEX ix_agentkit_kept_segment ON agentkit_kept (segment);
CREATE TABLE agentkit_steps (run INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT
    NULL, turn INTEGER NOT NULL, saved_at FLOAT NOT NULL, head TEXT, data TEXT NOT NULL, PRIMARY
    KEY (run, number), FOREIGN KEY(run) REFERENCES agentkit_runs (id), FOREIGN KEY(head)
    REFERENCES agentkit_chain (digest)) WITHOUT ROWID;
CREATE INDEX ix_agentkit_steps_head ON agentkit_steps (head);
""",
    "postgresql": """
CREATE TABLE agentkit_runs (id BIGSERIAL NOT NULL, run_id TEXT NOT NULL, parent TEXT, root
    TEXT NOT NULL, session TEXT NOT NULL, "user" TEXT NOT NULL, tenant TEXT NOT NULL, agent TEXT
    NOT NULL, task TEXT NOT NULL, status TEXT NOT NULL, turn BIGINT NOT NULL, began_at FLOAT(53)
    NOT NULL, saved_at FLOAT(53) NOT NULL, total_s FLOAT(53) NOT NULL, n_requests INTEGER NOT
    NULL, input_tokens BIGINT NOT NULL, cache_read_tokens BIGINT NOT NULL, output_tokens BIGINT
    NOT NULL, usd TEXT NOT NULL, n_cost_unknown INTEGER NOT NULL, n_unpriced INTEGER NOT NULL,
    n_steps INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (id), UNIQUE (run_id));
CREATE UNIQUE INDEX agentkit_runs_going_on ON agentkit_runs (session, agent) WHERE parent IS
    NULL AND status IN ('running', 'paused');
CREATE INDEX ix_agentkit_runs_root ON agentkit_runs (root);
CREATE INDEX ix_agentkit_runs_session ON agentkit_runs (session);
CREATE INDEX ix_agentkit_runs_user ON agentkit_runs ("user");
CREATE TABLE agentkit_segments (digest TEXT NOT NULL, data BYTEA NOT NULL, PRIMARY KEY
    (digest));
CREATE TABLE agentkit_version (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE agentkit_chain (digest TEXT NOT NULL, parent TEXT, segment TEXT NOT NULL, depth
    INTEGER NOT NULL, PRIMARY KEY (digest), FOREIGN KEY(segment) REFERENCES agentkit_segments
    (digest));
CREATE INDEX ix_agentkit_chain_parent ON agentkit_chain (parent);
CREATE INDEX ix_agentkit_chain_segment ON agentkit_chain (segment);
CREATE TABLE agentkit_kept (run BIGINT NOT NULL, handle TEXT NOT NULL, segment TEXT NOT
    NULL, PRIMARY KEY (run, handle), FOREIGN KEY(run) REFERENCES agentkit_runs (id), FOREIGN
    KEY(segment) REFERENCES agentkit_segments (digest));
CREATE INDEX ix_agentkit_kept_segment ON agentkit_kept (segment);
CREATE TABLE agentkit_steps (run BIGINT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT
    NULL, turn BIGINT NOT NULL, saved_at FLOAT(53) NOT NULL, head TEXT, data TEXT NOT NULL,
    PRIMARY KEY (run, number), FOREIGN KEY(run) REFERENCES agentkit_runs (id), FOREIGN KEY(head)
    REFERENCES agentkit_chain (digest));
CREATE INDEX ix_agentkit_steps_head ON agentkit_steps (head);
""",
}
