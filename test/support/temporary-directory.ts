import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A directory that the caller removes after its test. */
export function temporaryDirectory(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'ojs-test-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}
