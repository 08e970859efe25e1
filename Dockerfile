# The gateway alone; docker-compose.yml adds a RabbitMQ. Node 22 has SQLite built in, and the ledger
# is tested on it (scripts/test/node-22.mjs).
FROM node:22-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# Not `npm ci`: the lock may lack other platforms' binaries of development tools. No package needs its install
# script, and none is run: it could do anything.
RUN npm install --ignore-scripts --no-audit --no-fund
COPY tsconfig.json ./
COPY src src
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:22-bookworm-slim
# The image never installs packages, so it needs no package manager.
RUN rm -rf /usr/local/lib/node_modules /usr/local/bin/npm /usr/local/bin/npx \
      /usr/local/bin/corepack /usr/local/bin/yarn /usr/local/bin/yarnpkg /opt/yarn-*
WORKDIR /app
COPY package.json ./
COPY topology topology
COPY scripts/process/health-status.mjs scripts/
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
# The gateway writes nothing but the ledger.
RUN mkdir data && chown node:node data
VOLUME /app/data
USER node
# 0.0.0.0 is the container's own network. On it the gateway starts only with OJS_API_KEYS, or with
# OJS_ALLOW_OPEN=1 where something else restricts who can connect (docker-compose.yml).
ENV NODE_ENV=production OJS_HOST=0.0.0.0 OJS_PORT=8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "--input-type=module", "-e", "import { healthStatus } from '/app/scripts/health-status.mjs'; const { OJS_PORT, OJS_TLS_CERT } = process.env; process.exit((await healthStatus(`http${OJS_TLS_CERT ? 's' : ''}://127.0.0.1:${OJS_PORT || 8080}`)) === 200 ? 0 : 1)"]
CMD ["node", "dist/main.js", "serve"]
