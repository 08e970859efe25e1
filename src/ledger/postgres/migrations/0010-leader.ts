/** Which gateway is the active one, and which stand by. */
export const sql = `
-- Tells this ledger from every other one, in whatever database it is restored.
CREATE TABLE %S.identity (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO %S.identity DEFAULT VALUES;

-- The lease of the active gateway, in the database's time. One row, which stays.
CREATE TABLE %S.leader (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  owner uuid NOT NULL,
  -- Where its clients reach it.
  url text NOT NULL,
  until timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE %S.standbys (
  owner uuid PRIMARY KEY,
  url text NOT NULL,
  seen_at timestamptz NOT NULL
);
`
