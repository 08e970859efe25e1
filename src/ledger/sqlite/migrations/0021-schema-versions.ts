/** A schema's version as it was sent, if that was a text; NULL: it is the integer in `version`. */
export const sql = 'ALTER TABLE schemas ADD COLUMN version_text TEXT'
