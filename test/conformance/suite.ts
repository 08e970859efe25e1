import { spawn } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// The public cases are not ours to copy: they lie beside the repository where it is developed.
const SHARED = new URL('../../../shared/', import.meta.url)
const SUITES = fileURLToPath(new URL('conformance/suites', SHARED))
const TOOL = fileURLToPath(new URL('tools/conformance.mjs', SHARED))

export interface CaseResult {
  file: string
  status: 'passed' | 'failed' | 'skipped'
  failure?: { step?: string; message: string }
}

/** Paths of the cases below this folder of the suites; undefined when there are no suites here. */
export function findCases(folder: string): string[] | undefined {
  if (!existsSync(SUITES) || !existsSync(TOOL)) return undefined
  return readdirSync(SUITES, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.startsWith(folder) && path.endsWith('.json'))
    .sort()
}

export const whereCasesShouldBe = SUITES

/** Runs the cases one after the other, without a reset in between; results by path. */
export async function runCases(url: string, folder: string): Promise<Map<string, CaseResult>> {
  const args = [TOOL, '--url', url, '--suites', SUITES, '--filter', folder, '--json']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const [report, complaints] = await Promise.all([textOf(child.stdout), textOf(child.stderr)])
  if (!report.startsWith('{')) throw new Error(`${TOOL}: ${complaints}`)
  const { cases } = JSON.parse(report) as { cases: CaseResult[] }
  return new Map(cases.map((each) => [each.file, each]))
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}
