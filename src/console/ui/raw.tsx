/** A text that somebody else wrote: it cannot change the direction or the order of what is around it. */
import type { ReactNode } from 'react'

/** Controls, marks of direction, and what has no width: shown by their numbers, because they deceive. */
const UNSEEN = /(?![\n\t\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

export function Raw({ text, className }: { text: string; className?: string }): ReactNode {
  return <bdi className={className}>{visible(text)}</bdi>
}

/** Where a page has a text and no element, such as its title. */
export function visible(text: string): string {
  return text.replace(
    UNSEEN,
    (sign) => `\\u${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )
}
