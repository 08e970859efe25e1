import { ledgerContract, PROPERTIES } from './contract.ts'
import { openSqliteHarness } from './sqlite-harness.ts'

ledgerContract('SQLite', () => openSqliteHarness(), PROPERTIES)
