/**
 * What a step keeps of its job's last attempt, beside the error: when a dead letter is retried, its row
 * begins the next generation and says nothing of this attempt any more.
 */
export const sql = `
ALTER TABLE workflow_steps ADD COLUMN started_at INTEGER;
ALTER TABLE workflow_steps ADD COLUMN attempt INTEGER;
`
