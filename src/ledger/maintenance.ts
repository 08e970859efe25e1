/** The part of the ledger's contract for maintenance mode. */

/** While it lasts, no new work is accepted. Instants are wall time, ms. */
export interface Maintenance {
  startedAt: number
  /** When it should be over, for people to read: it never ends by itself. Null: nobody said. */
  endsAt: number | null
  reason: string | null
}

export interface MaintenanceLedger {
  /** Begins maintenance. If there is one, changes its reason and end; `startedAt` stays. */
  begin(maintenance: Maintenance): Promise<{ maintenance: Maintenance; isNew: boolean }>

  /** Ends it, and returns what it was; null: there was none. */
  end(): Promise<Maintenance | null>
}
