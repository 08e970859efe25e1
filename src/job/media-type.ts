/**
 * The media type of every body and message. Without parameters, since clients compare the exact text (seed
 * 001 §4.1, §6.5).
 */
export const OJS_MEDIA_TYPE = 'application/openjobspec+json'
