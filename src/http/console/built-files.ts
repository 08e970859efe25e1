/** The built console: its files, read once, and compressed once for browsers that want that. */
import { readdir, readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { OjsError } from '../../errors.ts'

/** Beside the compiled gateway, whether that or its sources run. */
const FOLDER = new URL('../../../dist/console/', import.meta.url)

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

export interface BuiltFile {
  type: string
  plain: Buffer
  packed: Buffer
}

const pack = promisify(gzip)

/** Some 1.5 MB when all are in use; names that are no built file are never looked for on disk. */
export class BuiltFiles {
  readonly #files = new Map<string, Promise<BuiltFile>>()
  #names: Promise<ReadonlySet<string>> | undefined

  /** `name`: `index.html`, `assets/x.js`. Undefined: there is no such file. */
  async file(name: string): Promise<BuiltFile | undefined> {
    this.#names ??= namesOf(FOLDER)
    if (!(await this.#names).has(name)) return undefined
    const known = this.#files.get(name) ?? read(name)
    this.#files.set(name, known)
    return known
  }
}

async function namesOf(folder: URL): Promise<ReadonlySet<string>> {
  try {
    const names = await readdir(folder, { recursive: true })
    return new Set(names.filter((name) => extname(name) in TYPES))
  } catch (cause) {
    throw new OjsError('not_found', 'The console has not been built: npm run build builds it.', {
      details: { resource_type: 'route', resource_id: '/console/' },
      cause,
    })
  }
}

async function read(name: string): Promise<BuiltFile> {
  const plain = await readFile(fileURLToPath(new URL(name, FOLDER)))
  const packed = await pack(plain, { level: 9 })
  return { type: TYPES[extname(name)] ?? 'application/octet-stream', plain, packed }
}
