/** How much work one search does at most. */
import { partOfHeap } from '../../memory.ts'

/** Rows that one page, or one count, compares one by one: some 15 ms. The next page goes on behind them. */
export const MAX_COMPARED_AT_ONCE = 4_000
/** Rows in a row of which none matches, however many pages they are: then a list is at its end. */
export const MAX_COMPARED = 100_000
/** Of a list in an order without an index: so many jobs are looked at, and put in order. */
export const MAX_SORTED = 10_000
/** A page of `ids` ends after so many rows, so that its caller has its turn. */
export const MAX_LOOKED_FOR_IDS = 20_000
/** Characters of the texts of one page. */
export const MAX_LISTED_TEXT = partOfHeap(1 / 32, 64 * 1024 * 1024)
/** Bytes of envelopes that one page reads at most, but for one part of it: jobs may be megabytes. */
export const MAX_ENVELOPES = 16 * 1024 * 1024
/** Ranges of one search at most: with more types than that, it says that it has not looked at all. */
export const MAX_RANGES = 20_000
/** A queue with more types is looked at no further for its oldest job: each type is two seeks. */
export const MAX_TYPES = 1_000
/** Overdue jobs of each kind that are looked at, the most overdue first; promotion leaves few. */
export const MAX_OVERDUE = 10_000
/** Dead letters that statistics look at. */
export const MAX_DEAD_LOOKED_AT = 100_000
/** A queue with more due jobs than that has its own list put in order by the order of all. */
export const MAX_FEW_DUE = 10_000
/** Owed messages that are looked at for each that may be counted, if only some kinds of them count. */
export const OWED_LOOKED_AT = 3
