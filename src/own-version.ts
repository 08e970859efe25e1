/** The version of the package, from its package.json. */
import { readFile } from 'node:fs/promises'

/** The version of this package, such as `0.1.0`. */
export async function ownVersion(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8')
  const parsed: { version?: unknown } = JSON.parse(text)
  return String(parsed.version)
}
