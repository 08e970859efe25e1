import { ledgerContract, RULES } from './contract.ts'
import { openSqliteHarness } from './sqlite-harness.ts'

ledgerContract('SQLite', () => openSqliteHarness(), RULES)
