import { ledgerContract, PROPERTIES } from '../ledger/contract.ts'
import { openSqliteHarness } from '../ledger/sqlite-harness.ts'

ledgerContract('SQLite', () => openSqliteHarness(), PROPERTIES)
