/** Maintenance mode: one row, and in memory as committed. */
import type { Maintenance, MaintenanceLedger } from '../../maintenance.ts'
import type { Access } from '../commit/access.ts'
import { NotedState } from '../commit/committed-state.ts'
import type { Statements } from '../sql/statements.ts'

/** The row of maintenance mode in memory. */
export class MaintenanceState extends NotedState<Maintenance | null> {
  #current: Maintenance | null

  constructor({ maintenance }: Statements) {
    super()
    this.#current = maintenance.get() ?? null
  }

  get current(): Maintenance | null {
    return this.#current
  }

  /** Inside a write: what it is after it. */
  note(maintenance: Maintenance | null): void {
    this.notes.add(maintenance)
  }

  protected override apply(notes: readonly (Maintenance | null)[]): void {
    this.#current = notes.at(-1) ?? null
  }
}

/** See `MaintenanceLedger`. */
export class SqliteMaintenance implements MaintenanceLedger {
  readonly #statements: Statements
  readonly #state: MaintenanceState
  readonly #access: Access

  constructor(statements: Statements, state: MaintenanceState, access: Access) {
    this.#statements = statements
    this.#state = state
    this.#access = access
  }

  current(): Maintenance | null {
    return this.#state.current
  }

  begin(given: Maintenance): Promise<{ maintenance: Maintenance; isNew: boolean }> {
    return this.#access.write(() => {
      const present = this.#statements.maintenance.get()
      const begun = { ...given, startedAt: present?.startedAt ?? given.startedAt }
      this.#statements.keepMaintenance.run(begun.startedAt, begun.endsAt, begun.reason)
      this.#state.note(begun)
      return { maintenance: begun, isNew: present === undefined }
    })
  }

  end(): Promise<Maintenance | null> {
    return this.#access.write(() => {
      const present = this.#statements.maintenance.get() ?? null
      this.#statements.endMaintenance.run()
      this.#state.note(null)
      return present
    })
  }
}
