import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export const ROOT = resolve(import.meta.dirname, '../..')

/** A fenced block of the README. */
export interface Block {
  section: string
  /** Empty for a block that cannot be run. */
  language: string
  code: string
}

/** The addresses in the README, which tests replace by their own. */
export const README_URL = 'http://127.0.0.1:8080'
export const README_AMQP_URL = 'amqp://127.0.0.1:5672/%2Fojs'

export const blocks: readonly Block[] = readFileSync(join(ROOT, 'README.md'), 'utf8')
  .split(/^## /m)
  .flatMap((text) => {
    const section = text.slice(0, text.indexOf('\n'))
    return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = '', code = '']) => ({
      section,
      language,
      code,
    }))
  })

/** The only block of this language with `mark` in it. Throws if there is none or more than one. */
export function blockWith(language: string, mark: string): Block {
  const found = blocks.filter((block) => block.language === language && block.code.includes(mark))
  const [only] = found
  if (only === undefined || found.length > 1) throw new Error(`${found.length} blocks with ${mark}`)
  return only
}
