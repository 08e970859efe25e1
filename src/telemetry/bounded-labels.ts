/** Labels that clients choose, bounded: names beyond the limit share `other`. */

/** The label of every name beyond the limit. */
const OTHER = 'other'

/**
 * Limits the number of label values, because clients choose the names (OJS observability). The first `limit`
 * names keep their label as long as the process lives, so a series never changes its meaning.
 */
export class BoundedLabels {
  readonly #limit: number
  readonly #known = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  of(name: string): string {
    if (this.#known.has(name)) return name
    if (this.#known.size >= this.#limit) return OTHER
    this.#known.add(name)
    return name
  }
}

/**
 * Each pair adds some forty lines to a scrape, which is written in one turn of the event loop: 70 ms for this
 * many. Two limits of 200 alone would allow 40,000 pairs.
 */
const MAX_PAIRS = 1_000

/**
 * One value per pair of label values, made at first use. A hit is two look-ups and allocates nothing. Pairs
 * beyond the limits share the value of `other`.
 */
export class SeriesByPair<T> {
  readonly #firsts: BoundedLabels
  readonly #seconds: BoundedLabels
  readonly #make: (first: string, second: string) => T
  readonly #made = new Map<string, Map<string, T>>()
  #pairs = 0

  constructor(
    firsts: BoundedLabels,
    seconds: BoundedLabels,
    make: (first: string, second: string) => T,
  ) {
    this.#firsts = firsts
    this.#seconds = seconds
    this.#make = make
  }

  get(first: string, second: string): T {
    return this.#made.get(first)?.get(second) ?? this.#bounded(first, second)
  }

  #bounded(first: string, second: string): T {
    const firstLabel = this.#firsts.of(first)
    const secondLabel = this.#seconds.of(second)
    const known = this.#made.get(firstLabel)?.get(secondLabel)
    if (known !== undefined) return known
    return this.#pairs < MAX_PAIRS ? this.#add(firstLabel, secondLabel) : this.#shared()
  }

  #shared(): T {
    return this.#made.get(OTHER)?.get(OTHER) ?? this.#add(OTHER, OTHER)
  }

  #add(firstLabel: string, secondLabel: string): T {
    const made = this.#make(firstLabel, secondLabel)
    const row = this.#made.get(firstLabel) ?? new Map<string, T>()
    this.#made.set(firstLabel, row.set(secondLabel, made))
    this.#pairs++
    return made
  }
}
