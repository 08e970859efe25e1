/** The package has no types for its locales, which only register themselves. */
declare module 'cronstrue/locales/*'
