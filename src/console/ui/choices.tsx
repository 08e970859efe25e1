/** One of a few: a row of buttons, one of which is pressed. */
import type { ReactNode } from 'react'

interface ChoicesProps<T extends string> {
  /** What is chosen, for screen readers. */
  label: string
  /** Their names. */
  of: Readonly<Record<T, string>>
  chosen: T
  onChoose: (value: T) => void
}

export function Choices<T extends string>(props: ChoicesProps<T>): ReactNode {
  const { label, of, chosen, onChoose } = props
  return (
    <fieldset className="choices">
      <legend className="hidden">{label}</legend>
      {(Object.keys(of) as T[]).map((each) => (
        <button
          key={each}
          type="button"
          aria-pressed={each === chosen}
          onClick={() => onChoose(each)}
        >
          {of[each]}
        </button>
      ))}
    </fieldset>
  )
}
