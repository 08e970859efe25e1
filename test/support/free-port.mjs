export { freePort } from '../../scripts/ports.mjs'
