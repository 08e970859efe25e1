import { requireNode } from './node-version.mjs'

requireNode()

// What npm runs before it packs: the package must not hold what a deleted source has left in dist/,
// and a build that is up to date may have gateways running from it.
const { build, isBuildStale } = await import('./build.mjs')
if (isBuildStale()) await build()
