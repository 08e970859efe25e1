import { OjsError } from '../../errors.ts'
import type { Method, Route } from '../route.ts'

/**
 * Endpoints of seed 001, Appendix A, that this server does not have yet, with their conformance
 * level: 422 `unsupported`, whatever the body. Whoever builds one deletes its row; the server does
 * not start with both.
 */
const NOT_YET: readonly [method: Method, path: string, level: number][] = []

/** One route per row; each throws 422 `unsupported` with `details.endpoint` and `details.level`. */
export function notYetRoutes(): Route[] {
  return NOT_YET.map(([method, path, level]) => ({
    method,
    path,
    handle() {
      throw new OjsError('unsupported', `${method} ${path} is not offered yet.`, {
        details: { endpoint: `${method} ${path}`, level },
      })
    },
  }))
}
