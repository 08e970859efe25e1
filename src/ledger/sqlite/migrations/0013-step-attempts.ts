/**
 * What a step keeps of its job's attempt, beside its error: a dead letter that is retried begins
 * another life, and its row tells nothing of this one any more.
 */
export const sql = `
ALTER TABLE workflow_steps ADD COLUMN started_at INTEGER;
ALTER TABLE workflow_steps ADD COLUMN attempt INTEGER;
`
