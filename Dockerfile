# Debian 13 has bubblewrap 0.12 (0.12.0-1~deb13u1), git and Python 3.13; the bot runs as an ordinary user.
# Older bubblewrap lets a planted link create files on the host, so the build stops where it is older.
FROM debian:trixie-slim AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-pip python3-venv ca-certificates \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
RUN python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir uv
COPY pyproject.toml uv.lock README.md LICENSE app.yml ./
COPY bot ./bot
COPY webhooks ./webhooks
COPY workspace ./workspace
RUN UV_PROJECT_ENVIRONMENT=/opt/ultracode /opt/uv/bin/uv sync --frozen --no-dev --no-editable

FROM debian:trixie-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 git bubblewrap ca-certificates util-linux \
 && rm -rf /var/lib/apt/lists/* \
 && dpkg --compare-versions "$(dpkg-query -W -f '${Version}' bubblewrap)" ge 0.12 \
 && useradd --uid 10001 --create-home --home-dir /var/lib/ultracode --shell /usr/sbin/nologin ultracode
COPY --from=build /opt/ultracode /opt/ultracode
ENV PATH=/opt/ultracode/bin:$PATH ULTRACODE_DATA_DIR=/var/lib/ultracode PYTHONUNBUFFERED=1
USER 10001
WORKDIR /var/lib/ultracode
VOLUME /var/lib/ultracode
EXPOSE 8000
ENTRYPOINT ["ultracode"]
CMD ["serve", "--host", "0.0.0.0"]
