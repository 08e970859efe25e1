/** Slots: the lock, the fence and the group number of a gateway's connection, in one row. */
export const sql = `
CREATE TABLE %S.slots (
  id int PRIMARY KEY,
  -- Of the process that writes through it.
  owner uuid NOT NULL,
  -- How many times it was taken.
  epoch int NOT NULL,
  -- The last group that was committed through it.
  last_group bigint NOT NULL
) WITH (fillfactor = 50);

-- The first statement of every group. It raises, because the statements behind it are on the wire already,
-- and only a failed transaction stops them. The setting ends with the transaction: a gateway that was stopped
-- in the middle of a group must not hold its slot, and the rows of others, until its connection breaks.
CREATE FUNCTION %S.take_slot(slot int, mine int, this_group bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
  UPDATE %S.slots SET last_group = this_group WHERE id = slot AND epoch = mine;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'slot % is not ours any more', slot USING ERRCODE = 'OJ001';
  END IF;
END $$;
`
