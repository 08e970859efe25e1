/** What the messages of an error have in common; what differs in them stands there in words. */
import type { ReactNode } from 'react'
import { t } from '../text/text.ts'
import { Raw } from './raw.tsx'

/** As the gateway writes them. In parentheses, so that `split` keeps them, at the odd places. */
const PLACEHOLDER = /<(n|id|text)>/

export function Pattern({ text }: { text: string }): ReactNode {
  const words: Readonly<Record<string, string>> = t.failures.placeholders
  return text.split(PLACEHOLDER).map((part, at) =>
    at % 2 === 0 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: a part is its place
      <Raw key={at} text={part} />
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: a part is its place
      <span key={at} className="placeholder" title={t.failures.differs}>
        {words[part]}
      </span>
    ),
  )
}
