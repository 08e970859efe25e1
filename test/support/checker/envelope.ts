import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'
import { FORMATS } from '../../../src/schemas/args/formats.ts'
import { OJS_SCHEMAS } from '../../../src/schemas/ojs/catalogue.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers are read as a client would, member by member
type Json = any

const URI = 'https://openjobspec.org/schemas/v1'

const ajv = new Ajv2020({ strict: false, allErrors: true, formats: FORMATS })
for (const { content } of OJS_SCHEMAS) ajv.addSchema(JSON.parse(content))

/** What is wrong with a document by one of OJS's own schemas, e.g. `job`; empty if nothing is. */
export function ojsErrors(name: string, document: unknown): string[] {
  const validate = ajv.getSchema(`${URI}/${name}.schema.json`)
  if (validate === undefined) throw new Error(`OJS has no schema ${name}`)
  validate(document)
  return (validate.errors ?? []).map(toText)
}

function toText({ instancePath, message, params }: ErrorObject): string {
  return `${instancePath || 'it'} ${message} ${JSON.stringify(params)}`
}

/**
 * Throws unless the job is a whole envelope by seed 003, as every job in an answer must be. The one exception
 * are hyphens in the type, which the public suite uses and seed 003 does not allow.
 */
export function assertEnvelope(job: Json): void {
  const type = typeof job?.type === 'string' ? job.type.replaceAll('-', '_') : job?.type
  const errors = ojsErrors('job', { ...job, type })
  if (errors.length > 0) {
    throw new Error(`no envelope: ${errors.join('; ')}\n${JSON.stringify(job)}`)
  }
}

/** Endpoints whose `job` and `jobs` are whole jobs. */
const OF_JOBS = /^\/ojs\/v1\/(jobs|workers\/fetch|workers\/ack|dead-letter)\b/

/** Does `assertEnvelope` for every job in the body of an answer; returns how many there were. */
export function assertEnvelopes(path: string, body: Json): number {
  if (!OF_JOBS.test(path)) return 0
  const jobs = [...(body?.job ? [body.job] : []), ...(body?.jobs ?? [])]
  for (const job of jobs) assertEnvelope(job)
  return jobs.length
}
