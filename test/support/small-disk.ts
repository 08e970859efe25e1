import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Only root may mount it. */
export const isSmallDiskPossible = process.getuid?.() === 0

/** A file system of its own, in memory, which another file fills. */
export class SmallDisk {
  readonly dir = mkdtempSync(join(tmpdir(), 'ojs-small-'))
  readonly #filler = join(this.dir, 'filler')

  constructor(megabytes: number) {
    const options = `size=${megabytes}m,mode=755`
    execFileSync('/bin/mount', ['-t', 'tmpfs', '-o', options, 'ojs-test', this.dir])
  }

  /** Until there is no room for another page. */
  fill(): void {
    const file = openSync(this.#filler, 'w')
    const page = Buffer.alloc(4096)
    try {
      for (;;) writeSync(file, page)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    } finally {
      closeSync(file)
    }
  }

  free(): void {
    rmSync(this.#filler)
  }

  /** Lazily, because files may still be open when a test has failed. */
  remove(): void {
    execFileSync('/bin/umount', ['-l', this.dir])
    rmSync(this.dir, { recursive: true })
  }
}
