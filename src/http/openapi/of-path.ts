/** The body of an endpoint whose path names the job. */
import type { Schema } from './schema.ts'

/** The schema without the need to name the job in the body too. */
export function ofPath(schema: Schema & { required: readonly string[] }): Schema {
  const { required, title: _title, ...others } = schema
  const still = required.filter((name) => name !== 'job_id')
  return still.length > 0 ? { ...others, required: still } : others
}
