import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// The public cases cannot be copied into this repository. They are beside it where it is developed.
const SHARED = new URL('../../../shared/', import.meta.url)
const SUITES = fileURLToPath(new URL('conformance/suites', SHARED))
const TOOL = fileURLToPath(new URL('tools/conformance.mjs', SHARED))
/** The project's own cases, with the parts of known failures that can pass. */
const OWN = fileURLToPath(new URL('.', import.meta.url))

const FOLDERS: readonly { suites: string; folder: string }[] = [
  { suites: SUITES, folder: 'level-0-core' },
  { suites: SUITES, folder: 'level-1-reliable' },
  { suites: SUITES, folder: 'level-2-scheduled' },
  { suites: SUITES, folder: 'level-3-workflows' },
  { suites: SUITES, folder: 'level-4-advanced' },
  { suites: SUITES, folder: 'ext-admin-api' },
  { suites: SUITES, folder: 'ext-dead-letter' },
  { suites: SUITES, folder: 'ext-durable-execution' },
  { suites: SUITES, folder: 'ext-encryption' },
  { suites: SUITES, folder: 'ext-graceful-shutdown' },
  { suites: SUITES, folder: 'ext-job-versioning' },
  { suites: SUITES, folder: 'ext-observability' },
  { suites: SUITES, folder: 'ext-progress' },
  { suites: SUITES, folder: 'ext-rate-limiting' },
  { suites: OWN, folder: 'own' },
]

export interface CaseResult {
  file: string
  status: 'passed' | 'failed' | 'skipped'
  failure?: { step?: string; message: string }
}

export const whereCasesShouldBe = SUITES

/** Paths of all cases that this server should pass; undefined when there are no suites here. */
export function findCases(): string[] | undefined {
  if (!existsSync(SUITES) || !existsSync(TOOL)) return undefined
  return FOLDERS.flatMap(({ suites, folder }) =>
    readdirSync(suites, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.startsWith(`${folder}/`) && path.endsWith('.json'))
      .sort(),
  )
}

/** The total time that a case waits by itself, in milliseconds. */
export function waitOf(path: string): number {
  const { steps } = JSON.parse(readFileSync(join(suitesOf(path), path), 'utf8')) as {
    steps: { delay_ms?: number; duration_ms?: number }[]
  }
  return steps.reduce((sum, step) => sum + (step.delay_ms ?? 0) + (step.duration_ms ?? 0), 0)
}

/** Runs these cases one after the other, in the order of their paths and without a reset between. */
export async function runCases(url: string, paths: readonly string[]): Promise<CaseResult[]> {
  // The tool can filter by a single text only, so these cases are copied into a folder of their own.
  const dir = mkdtempSync(join(tmpdir(), 'ojs-cases-'))
  try {
    for (const path of paths) cpSync(join(suitesOf(path), path), join(dir, path))
    return await runFolder(url, dir)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

function suitesOf(path: string): string {
  const home = FOLDERS.find(({ folder }) => path.startsWith(`${folder}/`))
  if (home === undefined) throw new Error(`${path} is in none of the folders`)
  return home.suites
}

async function runFolder(url: string, dir: string): Promise<CaseResult[]> {
  const args = [TOOL, '--url', url, '--suites', dir, '--json']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const [report, complaints] = await Promise.all([textOf(child.stdout), textOf(child.stderr)])
  if (!report.startsWith('{')) throw new Error(`${TOOL}: ${complaints}`)
  const { cases } = JSON.parse(report) as { cases: CaseResult[] }
  return cases
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
