/** One fact of a list (`<dl className="facts">`): its name, and what is so. */
import type { ReactNode } from 'react'

export function Fact({ name, children }: { name: string; children: ReactNode }): ReactNode {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
