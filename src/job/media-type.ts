/**
 * Of every body and message. Exact, without parameters: that is how clients compare it (seed 001 §4.1,
 * §6.5).
 */
export const OJS_MEDIA_TYPE = 'application/openjobspec+json'
