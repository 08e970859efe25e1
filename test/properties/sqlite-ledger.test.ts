import { ledgerContract, PROPERTIES } from '../ledger/contract.ts'
import { sqliteHarnesses } from '../ledger/sqlite/harness.ts'

ledgerContract('SQLite', sqliteHarnesses(), PROPERTIES)
