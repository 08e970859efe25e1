import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export const ROOT = resolve(import.meta.dirname, '../..')

/** The pages whose blocks run, in the order in which somebody would read them. */
const PAGES = [
  'README.md',
  ...[
    ...[
      'getting-started',
      'retries',
      'cron',
      'workflows',
      'unique-jobs',
      'schemas',
      'queues',
      'concurrency',
      'long-jobs',
    ],
    ...['typescript-sdk', 'native-workers', 'package', 'watching', 'console', 'events-and-workers'],
  ].map((name) => `docs/guide/${name}.md`),
  'docs/reference/admin-api.md',
  'docs/operate/access.md',
]

/** A fenced block of a page. */
export interface Block {
  page: string
  /** Empty for a block that cannot be run. */
  language: string
  code: string
}

/** The addresses in the pages, which tests replace by their own. */
export const README_URL = 'http://127.0.0.1:8080'
export const README_AMQP_URL = 'amqp://127.0.0.1:5672/%2Fojs'

export const blocks: readonly Block[] = PAGES.flatMap((page) => {
  const text = readFileSync(join(ROOT, page), 'utf8')
  return [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = '', code = '']) => ({
    page,
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
