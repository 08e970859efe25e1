export { guard, unguard } from '../../scripts/processes.mjs'
