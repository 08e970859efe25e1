/** A button that copies a text. */
import { type ReactNode, useState } from 'react'
import { t } from '../text/text.ts'

export function CopyButton({ text, name }: { text: string; name?: string }): ReactNode {
  const [isCopied, setCopied] = useState(false)
  const onClick = () => {
    copy(text).then(
      () => setCopied(true),
      () => setCopied(false),
    )
  }
  return (
    <button
      type="button"
      className="quiet small"
      onClick={onClick}
      onBlur={() => setCopied(false)}
      aria-live="polite"
    >
      {isCopied ? t.copied : (name ?? t.copy)}
    </button>
  )
}

/** Over plain HTTP from another machine, browsers have no clipboard but the one of a selection. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}
