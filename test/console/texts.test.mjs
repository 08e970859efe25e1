import { readdirSync, readFileSync } from 'node:fs'
import { parseAst } from 'rolldown/parseAst'
import { expect, test } from 'vitest'

const SHOWN = new Set(['alt', 'aria-label', 'label', 'placeholder', 'title'])
/** What is the same in all languages. */
const NAMES = new Set(['ojs-rabbitmq', 'RabbitMQ', 'Ctrl K'])

/** Words that a file shows to its visitors although they are not in the text files. */
function wordsIn(code) {
  const words = []
  const take = (text) => {
    const word = String(text).trim()
    if (/\p{L}{2,}/u.test(word) && !NAMES.has(word)) words.push(word)
  }
  const walk = (node) => {
    if (node === null || typeof node !== 'object') return
    if (node.type === 'JSXText') take(node.value)
    if (node.type === 'JSXAttribute' && SHOWN.has(node.name.name)) take(node.value?.value ?? '')
    for (const child of Object.values(node)) walk(child)
  }
  walk(parseAst(code, { lang: 'tsx' }))
  return words
}

test('no page of the console has a text that is not in the text files', () => {
  const names = readdirSync('src/console', { recursive: true }).map(String)
  const files = names.filter((name) => name.endsWith('.tsx')).map((name) => `src/console/${name}`)
  expect(files.length).toBeGreaterThan(40)
  const found = files.flatMap((file) =>
    wordsIn(readFileSync(file, 'utf8')).map((word) => `${file}: ${word}`),
  )
  expect(found).toEqual([])
})

test('such a text is found', () => {
  const code = '<p title="a tip" id="not-shown">some <b>words</b> {t.known} Ctrl K</p>'
  expect(wordsIn(`export const x = ${code}`)).toEqual(['a tip', 'some', 'words'])
})
