/** How often something happened, hour by hour, as small bars. */
import type { ReactNode } from 'react'

const WIDTH = 5
const HEIGHT = 24

export function Trend({ counts, label }: { counts: readonly number[]; label: string }): ReactNode {
  const most = Math.max(1, ...counts)
  const width = counts.length * WIDTH
  return (
    <svg
      className="trend"
      role="img"
      aria-label={label}
      width={width}
      height={HEIGHT}
      viewBox={`0 0 ${width} ${HEIGHT}`}
    >
      {counts.map((count, at) => {
        const height = count === 0 ? 1 : Math.max(3, (count / most) * HEIGHT)
        return (
          <rect
            // biome-ignore lint/suspicious/noArrayIndexKey: a bar is its hour
            key={at}
            className={count === 0 ? 'none' : ''}
            x={at * WIDTH}
            y={HEIGHT - height}
            width={WIDTH - 1}
            height={height}
          />
        )
      })}
    </svg>
  )
}
