// Fakes of the ServiceNow classes that the Business Rule in docs/servicenow.md uses. `given` has the instance and the
// saved record. On exit the fakes print what the rule did.
const { createHmac } = require('crypto');

const did = { sent: [], logged: [] };
process.on('exit', () => console.log(JSON.stringify(did)));

const gs = {
    getProperty: (name) => given.properties[name],
    error: (text) => did.logged.push(text),
};

const GlideStringUtil = { base64Encode: (text) => Buffer.from(text, 'utf8').toString('base64') };

class GlideDateTime {
    getNumericValue() { return given.now_ms; }
}

// One class under two names, depending on the application scope.
globalThis[given.mac] = class {
    generateMac(key, algorithm, text) {
        if (algorithm !== 'HmacSHA256') throw new Error('unknown algorithm: ' + algorithm);
        return createHmac('sha256', Buffer.from(key, 'base64')).update(text, given.encoding).digest('base64');
    }
};

const sn_ws = {
    RESTMessageV2: class {
        headers = {};
        setHttpMethod(method) { this.method = method; }
        setEndpoint(url) { this.url = url; }
        setRequestHeader(name, value) { this.headers[name] = value; }
        setRequestBody(body) { this.body = body; }
        setHttpTimeout() {}
        execute() {
            did.sent.push({ method: this.method, url: this.url, headers: this.headers, body: this.body });
            return { getStatusCode: () => given.status };
        }
    },
};

const current = {
    getTableName: () => given.table,
    getUniqueValue: () => given.record.sys_id,
    getValue: (name) => given.record[name] || null,
};
const previous = null;
