import { requireNode } from './process/node-version.mjs'

requireNode()

// npm runs this before it packs. The package must not contain files in dist/ whose source has been deleted. A
// build that is up to date is left alone, because gateways may be running from it.
const { build, isBuildStale } = await import('./build.mjs')
if (isBuildStale()) await build()
