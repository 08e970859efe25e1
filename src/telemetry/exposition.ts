/** What the HTTP door and the metrics know of each other. */

/** What the HTTP door tells telemetry: one call per request. It must not throw. */
export interface HttpObserver {
  /** `status` is 0 if the client was gone before it had its answer. */
  requestDone(route: string, method: string, status: number, seconds: number): void
}

/** What `GET /metrics` shows. */
export interface MetricsPage {
  readonly contentType: string
  /** The Prometheus text format. */
  text(): Promise<string>
}

/** The page, and the observer that feeds its HTTP metrics. */
export interface Exposition extends MetricsPage {
  readonly http: HttpObserver
}
