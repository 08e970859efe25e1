import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The repository's folder, wherever the scripts are called from. */
export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))

/** @param {string[]} names */
export const inRoot = (...names) => join(ROOT, ...names)
