/** How much work one search does at most. */
import { partOfHeap } from '../../memory.ts'

/** Rows of a list that has to compare them one by one. */
export const MAX_COMPARED = 100_000
/** A number is not worth as much. */
export const MAX_COMPARED_FOR_COUNT = 10_000
/** Of a list in an order without an index: so many jobs are put in order. */
export const MAX_SORTED = 10_000
/** A page of `ids` ends after so many rows, so that its caller has its turn. */
export const MAX_LOOKED_FOR_IDS = 20_000
/** Characters of the texts of one page. */
export const MAX_LISTED_TEXT = partOfHeap(1 / 32, 64 * 1024 * 1024)
/** Bytes of envelopes that one search reads at most: jobs may be megabytes. */
export const MAX_ENVELOPES = 512 * 1024 * 1024
/** Ranges of one search at most: with more types than that, it says that it has not looked at all. */
export const MAX_RANGES = 20_000
/** A queue with more types is looked at no further for its oldest job: each type is two seeks. */
export const MAX_TYPES = 1_000
/** Overdue jobs of each kind that are looked at, the most overdue first; promotion leaves few. */
export const MAX_OVERDUE = 10_000
/** Dead letters that statistics look at. */
export const MAX_DEAD_LOOKED_AT = 100_000
/** If no more jobs than that have ended within the time that is asked for, they are all looked at. */
export const MAX_FEW_ENDED = 5_000
/** A queue with more due jobs than that has its own list put in order by the order of all. */
export const MAX_FEW_DUE = 10_000
