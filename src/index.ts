/** The public entry `ojs-rabbitmq`: the gateway inside a program of one's own. Node.js only. */
export { type Config, ConfigError, readConfig } from './config/config.ts'
export { type Gateway, startGateway } from './gateway.ts'
export { createLogger, type Logger, type LogLevel } from './logger.ts'
