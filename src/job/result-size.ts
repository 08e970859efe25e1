/** Of a result as JSON text, by whichever door its worker says it (ojs-digest §2.3). */
export const MAX_RESULT_BYTES = 1_048_576
