import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// The public cases are not ours to copy: they lie beside the repository where it is developed.
const SHARED = new URL('../../../shared/', import.meta.url)
const SUITES = fileURLToPath(new URL('conformance/suites', SHARED))
const TOOL = fileURLToPath(new URL('tools/conformance.mjs', SHARED))
/** What of a listed public case can pass, as cases of our own. */
const OWN = fileURLToPath(new URL('.', import.meta.url))

/** In the order in which they run, all of them on one gateway and without a reset in between. */
const FOLDERS: readonly { suites: string; folder: string }[] = [
  { suites: SUITES, folder: 'level-0-core' },
  { suites: SUITES, folder: 'level-1-reliable' },
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

/** Runs the cases one after the other; results by path. */
export async function runCases(url: string): Promise<Map<string, CaseResult>> {
  const results = new Map<string, CaseResult>()
  for (const { suites, folder } of FOLDERS) {
    for (const result of await runFolder(url, suites, folder)) results.set(result.file, result)
  }
  return results
}

async function runFolder(url: string, suites: string, folder: string): Promise<CaseResult[]> {
  const args = [TOOL, '--url', url, '--suites', suites, '--filter', `${folder}/`, '--json']
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
